"""Why messages cannot be laid out for a model."""

from inference.contract.errors import PermanentError


class ForgedTokenError(PermanentError, ValueError):
    """A text would be read as a control token, and cannot be written so that it is not. The message names the token."""


class ChatTemplateError(PermanentError, ValueError):
    """The template is no template, or cannot lay these messages out. The message is for the client; it says why."""
