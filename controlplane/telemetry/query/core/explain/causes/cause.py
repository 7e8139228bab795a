"""A named cause, with what it was concluded from."""

from typing import NamedTuple

PAGE = "docs/causes.md"


class Evidence(NamedTuple):
    """One figure, beside what it would be without the cause."""

    what: str
    value: float
    unit: str  # "ms", "%", "requests", "µs/token", …
    expected: float | None = None


class Cause(NamedTuple):
    name: str  # a slug, the anchor of its paragraph in docs/causes.md
    summary: str  # one sentence that names the pool or the replica
    impact_ms: float  # about how much each of the pool's requests loses to it, on average
    evidence: tuple[Evidence, ...]
    failed: int = 0  # requests that failed of it: such a cause costs answers, not time

    @property
    def doc(self) -> str:
        """Where it is written what to do about it."""
        return f"{PAGE}#{self.name}"
