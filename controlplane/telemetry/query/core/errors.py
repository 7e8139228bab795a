"""The errors of a question: both permanent, each with a remedy.

BadQuestionError           values that cannot be understood, or that contradict each other
└── BadParameterError      a parameter that is unknown, repeated or malformed
"""

MAX_SHOWN_CHARS = 80


class BadQuestionError(ValueError):
    """Permanent: `value` of `field` is wrong for `reason`. `remedy` says what to write instead."""

    def __init__(self, field: str, value: str, reason: str, remedy: str) -> None:
        self.field, self.value = field[:MAX_SHOWN_CHARS], value[:MAX_SHOWN_CHARS]
        self.reason, self.remedy = reason, remedy
        super().__init__(f"{self.field}={self.value!r}: {reason}. {remedy}.")


class BadParameterError(BadQuestionError):
    """Permanent: the caller sent a parameter that is not taken in this form."""
