"""A named cause with its evidence."""

from typing import NamedTuple


class Evidence(NamedTuple):
    """One figure, and what it would be without the cause."""

    what: str
    value: float
    unit: str  # "ms", "%", "requests", "µs/token", …
    expected: float | None = None


class Cause(NamedTuple):
    name: str  # a slug, the anchor of its paragraph in docs/causes.md
    summary: str  # one sentence that names the pool or the replica
    impact_ms: float  # about how much it costs each of the pool's requests, on average
    evidence: tuple[Evidence, ...]
    failed: int = 0  # requests that failed because of it
