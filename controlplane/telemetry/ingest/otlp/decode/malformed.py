"""The one error of decoding."""


class MalformedError(Exception):
    """The body as a whole cannot be read; permanent. The message says what is wrong with it, never what is in it."""
