"""Reads tool calls and reasoning out of plain text, for servers that leave them in it."""
