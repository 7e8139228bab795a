"""How long the value of a dimension may be."""

MAX_VALUE_CHARS = 200
"""Characters of the value of a dimension in a scope. A longer value is cut, and gets its length and a digest at the end."""
