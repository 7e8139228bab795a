"""What the launcher tells a person."""


class CannotRunError(Exception):
    """One sentence that says what is in the way, and what to do about it."""
