"""One observation of one component, and rates between two."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

State = Literal["up", "degraded", "down"]
Figures = Mapping[str, float]

NOT_UNDERSTOOD = "it answers what is not understood"
MEANS_MS = {"mean_queue_ms": "queue_ns", "mean_compute_ms": "compute_ns"}
"""Means over the requests between two observations, from counters of nanoseconds."""


@dataclass(frozen=True, slots=True)
class Reading:
    """`figures` are true at this moment; `counters` only ever grow, until their process starts again."""

    state: State
    figures: Figures = field(default_factory=dict)
    counters: Figures = field(default_factory=dict)
    error: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)  # what a replica is, where the gateway has found out


def down(reason: str) -> Reading:
    return Reading("down", error=reason)


def increases(before: Figures, now: Figures) -> dict[str, float]:
    """The increase of each counter that both observations have. One that shrank was reset: its increase is what it shows now."""
    return {
        name: now[name] - before[name] if now[name] >= before[name] else now[name] for name in now if name in before
    }


def rates(before: Figures, now: Figures, seconds: float) -> dict[str, float]:
    """Figures from two observations `seconds` apart: `requests_per_s` from a counter `requests`, MEANS_MS and `hit_ratio`.

    Empty when no time has passed. A mean or ratio of no requests is left out.
    """
    if seconds <= 0:
        return {}
    grown = increases(before, now)
    figures = {f"{name}_per_s": amount / seconds for name, amount in grown.items() if not name.endswith("_ns")}
    requests = grown.get("requests", 0)
    if requests > 0:
        figures |= {mean: grown[total] / requests / 1e6 for mean, total in MEANS_MS.items() if total in grown}
    lookups = grown.get("hits", 0) + grown.get("misses", 0)
    if lookups > 0:
        figures["hit_ratio"] = grown.get("hits", 0) / lookups
    return figures
