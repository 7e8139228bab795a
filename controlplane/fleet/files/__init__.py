"""The fleet as files: documents of its parts, their revisions, and the apply of both."""
