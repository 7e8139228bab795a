"""Limits that several parts share."""

MAX_RETENTION_DAYS = 3660
"""Ten years with their leap days: the most that the settings and the store accept."""
LONGEST_VALUE = 200
"""Characters of the value of a dimension in a scope. A longer value is cut, and gets its length and a digest at the end."""
