"""Several gateway processes on one port: one supervises the others, restarts them, and adds their metrics up."""
