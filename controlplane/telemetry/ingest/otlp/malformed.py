"""The one error of decoding."""


class Malformed(Exception):  # noqa: N818  (named for what happened)
    """The body as a whole cannot be read; permanent. The message says what is wrong with it, never what is in it."""
