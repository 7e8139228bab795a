"""Whom clients trust that are not told whom to."""

import ssl

TRUSTED = ssl.create_default_context()
"""Shared by all clients, because loading the certificates takes 23 ms of CPU."""
