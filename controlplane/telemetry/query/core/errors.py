"""The error of a question that cannot be understood."""

import re

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class BadQuestionError(ValueError):
    """Permanent: `value` of `field` is wrong for `reason`. `remedy` says what to write instead."""

    def __init__(self, field: str, value: str, reason: str, remedy: str) -> None:
        super().__init__(f"{field}={value[:80]!r}: {reason}. {remedy}.")
        self.field = field
        self.value = value[:80]
        self.reason = reason
        self.remedy = remedy


def has_control_characters(text: str) -> bool:
    """Whether `text` has a control character: no name, label or attribute of a question may have one."""
    return _CONTROL.search(text) is not None
