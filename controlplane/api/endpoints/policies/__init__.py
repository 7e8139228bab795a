"""Policies over REST: their revisions, as code, pauses and overrides, and what was decided."""
