"""Generated traffic, so that a newcomer's pages show data at once."""
