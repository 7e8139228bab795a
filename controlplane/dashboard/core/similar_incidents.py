"""Which earlier incidents were like this one, and in what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Alike:
    """What incidents of one objective or component are compared by. `stage` and `error` burned the most; empty: not known."""

    number: int
    scope: Mapping[str, str]
    stage: str
    error: str
    segments: frozenset[tuple[str, str]]


def most_alike(incident: Alike, earlier: Sequence[Alike], most: int) -> list[tuple[Alike, list[str]]]:
    """Those with the most in common first, each with what that is; of equals, those that stand first in `earlier`."""
    ranked = [(each, _common(incident, each)) for each in earlier]
    return sorted(ranked, key=lambda pair: -len(pair[1]))[:most]


def _common(incident: Alike, other: Alike) -> list[str]:
    common = []
    if incident.scope == other.scope:
        common.append("the same scope" if incident.scope else "all traffic")
    if incident.error and incident.error == other.error:
        common.append(f"error {incident.error}")
    if incident.stage and incident.stage == other.stage:
        common.append(f"most in {incident.stage}")
    common += [
        f"{dimension.replace('_', ' ')} {value or 'unknown'}"
        for dimension, value in sorted(incident.segments & other.segments)
    ]
    return common
