"""The launcher's error."""


class CannotRunError(Exception):
    """Permanent: the launcher cannot run. The message is one sentence with the reason and the remedy."""
