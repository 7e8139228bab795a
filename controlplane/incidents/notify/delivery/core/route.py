"""Decides which destinations a notice goes to."""

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
class PastNotice:
    """A notice of a key that one endpoint was sent, or will be."""

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
    enabled = [candidate for candidate in candidates if candidate.enabled]
    return [candidate for candidate in enabled if team and candidate.team == team] or [
        candidate for candidate in enabled if not candidate.team
    ]


def takers_of(severity: str, team: str, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Where a trigger of that severity goes: the team's destinations that take it, or else the default ones that do.

    Empty: nobody is notified.
    """
    able = [candidate for candidate in candidates if severity in candidate.severities]
    return takers(team, able)


def open_at(steps: Iterable[PastNotice]) -> list[Target]:
    """Where the key is open: a trigger was sent, and no resolve since. `steps` in the order of their sequence."""
    open_targets: dict[int, Target] = {}
    for step in steps:
        if step.action == "resolve":
            open_targets.pop(step.endpoint, None)
        elif step.action == "trigger" and not step.dead:
            open_targets.setdefault(step.endpoint, Target(step.endpoint, step.destination))
    return list(open_targets.values())


def targets(
    action: str, severity: str, team: str, candidates: Sequence[Candidate], steps: Iterable[PastNotice]
) -> list[Target]:
    """Where a notice goes, each endpoint once.

    A trigger goes where the key is open, and to the destinations that take it now. What follows goes only where the key was opened,
    even if that destination was changed or disabled since.
    """
    by_endpoint = {target.endpoint: target for target in open_at(steps)}
    if action == "trigger":
        for candidate in takers_of(severity, team, candidates):
            by_endpoint.setdefault(candidate.endpoint, Target(candidate.endpoint, candidate.id))
    return list(by_endpoint.values())


def not_sent_to(severity: str, team: str, candidates: Sequence[Candidate], steps: Iterable[PastNotice]) -> list[Target]:
    """Destinations that take an open key's triggers and were never sent one: they are new, or were enabled or changed since."""
    known = {step.endpoint for step in steps}
    return [target for target in _targets_of(takers_of(severity, team, candidates)) if target.endpoint not in known]


def change_targets(team: str, candidates: Sequence[Candidate]) -> list[Target]:
    return _targets_of(candidate for candidate in takers(team, candidates) if candidate.takes_changes)


def _targets_of(candidates: Iterable[Candidate]) -> list[Target]:
    """Each endpoint once."""
    by_endpoint = {candidate.endpoint: Target(candidate.endpoint, candidate.id) for candidate in candidates}
    return list(by_endpoint.values())
