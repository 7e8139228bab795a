"""What a revision changed: field by field, and as lines of YAML."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from controlplane.core.documents.plan import FieldChange, changed_fields
from controlplane.core.documents.reading import read
from controlplane.core.documents.report import change_text
from controlplane.fleet.core import forms
from controlplane.fleet.core.forms import Values
from controlplane.fleet.files import revisions
from controlplane.fleet.files.kinds import KINDS, Key
from controlplane.fleet.models import FleetChange

AROUND = 2
"""Lines that are shown around each that differs."""


@dataclass(frozen=True)
class Difference:
    """Of one document. `before` and `after` are empty where there was none, or where it was removed."""

    key: Key
    before: str
    after: str

    @property
    def did(self) -> str:
        return "removed" if not self.after else "changed" if self.before else "added"

    @property
    def fields(self) -> tuple[FieldChange, ...]:
        """Of a document that was there before and is there after."""
        if not (self.before and self.after):
            return ()
        part = KINDS[self.key[0]].part
        before, after = (forms.by_key(part, values_of_text(self.key, text)) for text in (self.before, self.after))
        return changed_fields(before, after)

    @property
    def words(self) -> str:
        """`Pool chat-eu: weight: 70 → 80`."""
        name = f"{self.key[0]} {self.key[1]}"
        if self.did != "changed":
            return f"{name} {self.did}"
        return f"{name}: {'; '.join(change_text(each) for each in self.fields) or 'its owner label'}"

    @property
    def lines(self) -> list[dict[str, str]]:
        return lines_between(self.before, self.after, AROUND)


def lines_between(before: str, after: str, around: int = 3) -> list[dict[str, str]]:
    """The lines that differ, with so many around each."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=around)
    tones = {"+": "added", "-": "removed", "@": "muted"}
    return [{"text": line, "tone": tones.get(line[0], "")} for line in list(lines)[2:]]


def differences(changes: Iterable[FleetChange]) -> list[Difference]:
    return [Difference((each.kind, each.name), revisions.before(each), each.text) for each in changes]


def values_of_text(key: Key, text: str) -> Values:
    """Of a stored document."""
    documents, _ = read(text)
    return forms.read(documents[0].node.at("spec"), KINDS[key[0]].part)[0]
