"""Silences as plain values: what they match, and when."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Literal

from controlplane.slo.core.objective import DIMENSIONS

FIELDS = ("objective", "component", "owner", "severity", *DIMENSIONS)
LABEL = "label."
MAX_MATCHER_CHARS = 200
PATTERN = rf"^({'|'.join(FIELDS)}|label\.[^=!\s\x00-\x1f\x7f-\x9f]+)!?=[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
"""Matches every text that `matcher` takes, as `str()` of a matcher writes it."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a silence looks at."""

    objective: str
    owner: str
    severity: str
    scope: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    component: str = ""  # of a component's incident, such as "gateway"; it has no objective

    def value(self, name: str) -> str:
        """Empty where it has none."""
        if name.startswith(LABEL):
            return self.labels.get(name.removeprefix(LABEL), "")
        if name in DIMENSIONS:
            return self.scope.get(name, "")
        return str(getattr(self, name))


@dataclass(frozen=True, slots=True)
class Matcher:
    name: str  # one of FIELDS, or `label.` and a label's name
    op: Literal["=", "!="]
    value: str  # `*` stands for any characters

    def matches(self, subject: Subject) -> bool:
        """A subject without that value has the empty text."""
        return fnmatchcase(subject.value(self.name), self.value.replace("[", "[[]")) == (self.op == "=")

    def __str__(self) -> str:
        return f"{self.name}{self.op}{self.value}"


def matcher(text: str) -> Matcher:
    """Read `model=chat-large`, `tier!=batch`, `label.service=search*`. Raises ValueError."""
    name, equals, value = text.partition("=")
    op: Literal["=", "!="] = "!=" if name.endswith("!") else "="
    name, value = name.removesuffix("!").strip(), value.strip()
    if not equals or not value or len(text) > MAX_MATCHER_CHARS:
        raise ValueError(f"matcher {text[:80]!r} cannot be read: write NAME=VALUE or NAME!=VALUE, such as tier=batch")
    if name not in FIELDS and not (name.startswith(LABEL) and name != LABEL):
        raise ValueError(f"matcher {text[:80]!r} names {name!r}: use one of {', '.join(FIELDS)}, or {LABEL}NAME")
    return Matcher(name, op, value)


@dataclass(frozen=True, slots=True)
class Silence:
    """All matchers must match, while `starts_at <= now < ends_at`."""

    id: str
    matchers: tuple[Matcher, ...]
    starts_at: datetime
    ends_at: datetime

    def covers(self, subject: Subject, now: datetime) -> bool:
        """A silence without matchers covers nothing, and not everything."""
        in_time = self.starts_at <= now < self.ends_at
        return in_time and bool(self.matchers) and all(matcher.matches(subject) for matcher in self.matchers)


def silencing(silences: Iterable[Silence], subject: Subject, now: datetime) -> Silence | None:
    """The silence that lasts longest of those that cover it."""
    return max(
        (silence for silence in silences if silence.covers(subject, now)),
        key=lambda silence: (silence.ends_at, silence.id),
        default=None,
    )
