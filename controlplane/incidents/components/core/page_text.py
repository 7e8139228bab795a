"""What a person is told of a component's incident. Pure.

"pool chat-large-local has 0 of 2 replicas up since 21:50:05 UTC (no answer within 2 s); requests that only this pool can answer fail;
resolves once a replica has been up for 1 min; owner: serving; https://weir.example.com/causes#pool-down"
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from controlplane.incidents.components.core.words import WORDS, Words

SOON_NS = 10 * 10**9
NO_ANSWER = "no answer within"
"""How an error begins that says that a process took the question and did not answer it: it may hang."""
DAY_NS = 86_400 * 10**9


class Frozen(Protocol):
    """Of frozen.py."""

    @property
    def promise(self) -> Mapping[str, Any]: ...
    @property
    def burning(self) -> Mapping[str, Any]: ...


class Facts(Frozen, Protocol):
    @property
    def name(self) -> str: ...


def words(facts: Frozen) -> Words:
    return WORDS[str(facts.promise["of"])]


def subject(facts: Facts) -> str:
    return facts.name


def measured(facts: Frozen) -> str:
    """`is down since 21:50:05 UTC`, in the present while it is down; what nobody has seen lately is said to be so."""
    found, say = facts.burning, words(facts)
    began, now = found.get("since_ns"), int(found.get("at_ns") or 0)
    since = clock(began, now) if began else "an unknown time"
    if found.get("back_ns"):
        again = say.again.format(up=found.get("up"), of=found.get("of"))
        return f"{again} since {clock(found['back_ns'], now)}; it {say.was_down} from {since}"
    if found.get("state") == "unknown":
        return f"{say.was_down} from {since} when it was last seen; what it is now is not known"
    verb = say.is_down.format(up=found.get("up"), of=found.get("of"))
    if verb == "is down" and str(found.get("error") or "").startswith(NO_ANSWER):
        verb = "has not answered"
    return f"{verb} since {since}"


def cause(facts: Frozen) -> str:
    """What was answered, and what that means: `no answer within 2 s; no request is served through it`."""
    found = facts.burning
    parts = [
        ", ".join(found.get("names") or []),
        str(found.get("error") or ""),
        last_up(found),
        words(facts).effect if found.get("state") == "firing" else "",
    ]
    return "; ".join(part for part in parts if part)


def last_up(found: Mapping[str, Any]) -> str:
    """Where it was not seen up just before: it may have been down for longer than anybody looked."""
    began, up_at = found.get("since_ns"), found.get("up_at_ns")
    if not began or found.get("state") != "firing" or (up_at and began - up_at <= SOON_NS):
        return ""
    return f"it was last seen up at {clock(up_at, int(found['at_ns']))}" if up_at else "it has never been seen up"


def resolves(facts: Frozen, up_for: str) -> str:
    return words(facts).resolves.format(up_for=up_for)


def clock(at_ns: int, now_ns: int) -> str:
    """`21:50:05 UTC`, with the date where it is a day ago or more."""
    at = datetime.fromtimestamp(at_ns // 10**9, UTC)
    return f"{at:%Y-%m-%d %H:%M:%S} UTC" if now_ns - at_ns >= DAY_NS else f"{at:%H:%M:%S} UTC"
