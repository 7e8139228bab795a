"""From alerts to few, useful pages: incidents, silences, and their delivery."""
