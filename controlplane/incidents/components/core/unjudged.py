"""Alerts of objectives that could not be judged for too long, one for each owner."""

import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from controlplane.incidents.components.core.alert import ComponentAlert, key_of
from controlplane.slo.core.alert import State

STALE_AFTER_S = 60.0
"""Age from which a state is ignored: the controller writes each at least every 15 s."""
MAX_NAMED = 8
MAX_REASONS = 3
MAX_REASON = 160

SPANS = "spans"
EXPLAINED_BY = tuple(map(key_of, ("telemetry", "gateway", "controller", SPANS)))


@dataclass(frozen=True, slots=True)
class ObjectiveSeen:
    """The latest state of an objective in one scope. `why`: why it is unknown. One of pools that policies have ended is not meant to be
    known.
    """

    name: str
    owner: str
    is_unknown: bool
    since: datetime  # of the state
    at: datetime  # when the controller wrote it
    why: str = ""


def alerts(
    objectives: Iterable[ObjectiveSeen], known: Container[str], now: datetime, after_s: float
) -> list[ComponentAlert]:
    """`after_s`: for how long an objective may be unknown, s. An owner's incident that is open lasts until all are judged."""
    by_owner: dict[str, list[ObjectiveSeen]] = {}
    for objective in objectives:
        by_owner.setdefault(objective.owner, []).append(objective)
    return [_alert(owner, owned, known, now, after_s) for owner, owned in sorted(by_owner.items())]


def _alert(
    owner: str, objectives: Sequence[ObjectiveSeen], known: Container[str], now: datetime, after_s: float
) -> ComponentAlert:
    component = f"objectives:{owner}" if owner else "objectives"
    fresh = [objective for objective in objectives if now - objective.at <= timedelta(seconds=STALE_AFTER_S)]
    unknown = [objective for objective in fresh if objective.is_unknown]
    long = [objective for objective in unknown if now - objective.since >= timedelta(seconds=after_s)]
    listed = unknown if key_of(component) in known else long
    state: State = "firing" if listed else "unknown" if unknown or not fresh else "quiet"
    return ComponentAlert(
        component=component,
        name=f"Objectives of {owner}" if owner else "Objectives without an owner",
        kind="objectives",
        state=state,
        severity="page",
        at_ns=int(now.timestamp() * 1e6) * 1000,
        since=min((objective.since for objective in listed), default=None),
        error="; ".join(reasons(listed)),
        explained_by=EXPLAINED_BY,
        owner=owner,
        up=len(fresh) - len(unknown),
        of=len(fresh),
        names=named(listed),
    )


def named(objectives: Iterable[ObjectiveSeen]) -> tuple[str, ...]:
    """At most MAX_NAMED, then how many more."""
    names = sorted({objective.name for objective in objectives})
    return (*names[:MAX_NAMED], *([f"{len(names) - MAX_NAMED} more"] if len(names) > MAX_NAMED else []))


def reasons(objectives: Sequence[ObjectiveSeen]) -> list[str]:
    """Each reason once, with its number of objectives, the most frequent first. Reasons that differ only in figures count as one."""
    groups: dict[str, list[ObjectiveSeen]] = {}
    for objective in objectives:
        groups.setdefault(re.sub(r"\d[\d.,]*", "#", objective.why), []).append(objective)
    ranked = sorted(groups.values(), key=lambda group: -len(group))
    if len(ranked) == 1:
        return [_why(ranked[0][0])]
    return [f"{len(group)} because {_why(group[0])}" for group in ranked[:MAX_REASONS]]


def _why(objective: ObjectiveSeen) -> str:
    return (objective.why or "the controller gives no reason")[:MAX_REASON]
