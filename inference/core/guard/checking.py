"""Holds texts to a tenant's rules. Nothing of what it sees is kept: `note` gets the name of a rule and what it did."""

from collections.abc import Callable
from typing import Any, Literal

from inference.contract.errors import PermanentError
from inference.contract.snapshot_parts import Pattern
from inference.core.guard import texts
from inference.core.guard.patterns import find, may_have, replaced
from inference.core.guard.rules import Checks

Outcome = Literal["refused", "masked", "reported", "failed_open", "failed_closed"]
Note = Callable[[str, Outcome], None]
_MAX_BYTES = 8 << 10
_DONE: dict[str, Outcome] = {"refuse": "refused", "mask": "masked", "report": "reported"}


class RefusedTextError(PermanentError):
    """A rule, whose name it has, refuses a text."""

    def __init__(self, rule: str) -> None:
        super().__init__(f"rule {rule!r} refuses the text")
        self.rule = rule


def is_clean(document: bytes, checks: Checks) -> bool:
    """Whether this JSON passes as it is, as most does. What is long, such as an image, is looked through text by text."""
    if checks.length is not None or checks.moderations or len(document) > _MAX_BYTES:
        return False
    return not may_have(document, checks.patterns)


class Checking:
    """Of one request or answer."""

    def __init__(self, checks: Checks, note: Note) -> None:
        self.checks, self.patterns = checks, checks.patterns
        self._length = checks.length
        self._note = note

    def is_masked(self, pattern: Pattern) -> bool:
        """Count one that was found. Raises RefusedTextError."""
        rule = self.patterns[pattern]
        self._note(rule.name, _DONE[rule.action])
        if rule.action == "refuse":
            raise RefusedTextError(rule.name)
        return rule.action == "mask"

    def text(self, text: str) -> str:
        """The text as it may pass. Raises RefusedTextError."""
        masks = [each for each in find(text, self.patterns) if self.is_masked(each.pattern)]
        return replaced(text, masks) if masks else text

    def document(self, document: Any) -> Any:
        """The same for all texts of a document, which is the same object where nothing of it is masked. Raises RefusedTextError."""
        rule = self._length
        if rule is not None and sum(map(len, texts.texts(document))) > rule.max_chars:
            self._note(rule.name, _DONE[rule.action])
            if rule.action == "refuse":
                raise RefusedTextError(rule.name)
        return texts.changed(document, self.text) if self.patterns else document

    def unreadable(self, rules: Checks) -> None:
        """There is something in it that nobody can look through. Raises RefusedTextError, unless all rules only report."""
        for rule in (*rules.patterns.values(), *rules.moderations):
            if rule.action != "report":
                self._note(rule.name, "refused")
                raise RefusedTextError(rule.name)
