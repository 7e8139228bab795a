"""Who is told: pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    """A destination, as routing sees it."""

    id: int
    endpoint: int
    team: str  # empty: a default destination
    enabled: bool
    severities: tuple[str, ...]
    takes_changes: bool


@dataclass(frozen=True, slots=True)
class Step:
    """What one endpoint was told, or is about to be told, of a key."""

    endpoint: int
    destination: int | None
    action: str
    dead: bool


@dataclass(frozen=True, slots=True)
class Target:
    endpoint: int
    destination: int | None


def takers(team: str, candidates: Sequence[Candidate]) -> list[Candidate]:
    """The team's own destinations, or the default ones if it has none that is enabled."""
    enabled = [one for one in candidates if one.enabled]
    return [one for one in enabled if team and one.team == team] or [one for one in enabled if not one.team]


def takers_of(severity: str, team: str, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Who is told of a trigger of that severity: the team's own destinations that take it, or else the default ones that do.

    Empty: nobody is told.
    """
    able = [one for one in candidates if severity in one.severities]
    return takers(team, able)


def open_at(steps: Iterable[Step]) -> list[Target]:
    """Where the key is open: told of a trigger, and of no resolve since. `steps` in the order of their sequence."""
    found: dict[int, Target] = {}
    for step in steps:
        if step.action == "resolve":
            found.pop(step.endpoint, None)
        elif step.action == "trigger" and not step.dead:
            found.setdefault(step.endpoint, Target(step.endpoint, step.destination))
    return list(found.values())


def targets(
    action: str, severity: str, team: str, candidates: Sequence[Candidate], steps: Iterable[Step]
) -> list[Target]:
    """Where a notice goes, each endpoint once.

    A trigger goes where the key is open and to whoever takes it now; what follows goes where it was opened, and only there, even
    if that destination has changed or is disabled by now.
    """
    found = {target.endpoint: target for target in open_at(steps)}
    if action == "trigger":
        for one in takers_of(severity, team, candidates):
            found.setdefault(one.endpoint, Target(one.endpoint, one.id))
    return list(found.values())


def missing(severity: str, team: str, candidates: Sequence[Candidate], steps: Iterable[Step]) -> list[Target]:
    """Who takes an open key's triggers now, and was never sent one: destinations that are new, enabled since, or routed anew."""
    known = {step.endpoint for step in steps}
    found = {one.endpoint: Target(one.endpoint, one.id) for one in takers_of(severity, team, candidates)}
    return [target for endpoint, target in found.items() if endpoint not in known]


def change_targets(team: str, candidates: Sequence[Candidate]) -> list[Target]:
    found = {one.endpoint: Target(one.endpoint, one.id) for one in takers(team, candidates) if one.takes_changes}
    return list(found.values())
