"""What a provider said of a person, and how long it counts. What is not known gives nobody a role."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

OVERAGE = "http://schemas.microsoft.com/claims/groups.link"


@dataclass(frozen=True, slots=True)
class Said:
    """`refused`: the provider knows the person, or the log-in, no more."""

    groups: frozenset[str]
    at: datetime
    refused: bool = False


@dataclass(frozen=True, slots=True)
class ReadTimes:
    """Seconds. `reread_s`: how old it may be before the provider is asked again; `outage_s`: while the provider does not answer."""

    reread_s: float
    outage_s: float


def is_due(said: Said, now: datetime, times: ReadTimes) -> bool:
    return not said.refused and now - said.at >= timedelta(seconds=times.reread_s)


def groups_now(said: Said, now: datetime, times: ReadTimes) -> frozenset[str] | None:
    """None: refused, or said too long ago."""
    outage_s = max(times.outage_s, times.reread_s)
    return None if said.refused or now - said.at > timedelta(seconds=outage_s) else said.groups


def groups_of(claims: dict[str, object], claim: str) -> frozenset[str] | None:
    """The groups that the claim names; without a claim none: some providers leave out an empty one. None where the provider has more of
    them than it writes down (Entra's overage, of both protocols)."""
    elsewhere = claims.get("_claim_names")
    if claims.get("hasgroups") or OVERAGE in claims or (isinstance(elsewhere, dict) and claim in elsewhere):
        return None
    said = claims.get(claim) or []
    named: Collection[object] = [said] if isinstance(said, str) else said if isinstance(said, list) else []
    return frozenset(str(each) for each in named)
