"""The one error of decoding."""


class MalformedError(Exception):
    """The body as a whole cannot be read; permanent. The message describes the fault and never quotes the content."""
