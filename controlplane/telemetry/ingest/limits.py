"""Bounds that more than one part holds itself to."""

MAX_RETENTION_DAYS = 3660
"""Ten years with their leap days: what the settings take, and what the store takes."""
LONGEST_VALUE = 200
"""Characters of a dimension's value that objectives are told apart by. A longer one is cut, and marked with its length and a digest."""
