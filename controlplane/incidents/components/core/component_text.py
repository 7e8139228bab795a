"""The text of a component's incident, such as:

"pool chat-large-local has 0 of 2 replicas up since 21:50:05 UTC (no answer within 2 s); requests that only this pool can answer fail;
resolves once a replica has been up for 1 min; owner: serving; https://weir.example.com/causes#pool-down"
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from controlplane.incidents.components.core.words import WORDS, Words

SOON_NS = 10 * 10**9
NO_ANSWER = "no answer within"
"""Begins the error of a process that took a probe and did not answer: it may hang."""
DAY_NS = 86_400 * 10**9


Record = Mapping[str, Any]
"""What `alert_record.py` keeps of an alert: its definition, or its figures."""


def words(definition: Record) -> Words:
    return WORDS[str(definition["of"])]


def measured(definition: Record, burning: Record) -> str:
    """`is down since 21:50:05 UTC`; where it was not observed lately, the text says so."""
    say = words(definition)
    began, now = burning.get("since_ns"), int(burning.get("at_ns") or 0)
    since = clock(began, now) if began else "an unknown time"
    if burning.get("back_ns"):
        again = say.again.format(up=burning.get("up"), of=burning.get("of"))
        return f"{again} since {clock(burning['back_ns'], now)}; {say.pronoun} {say.was_down} from {since}"
    if burning.get("state") == "unknown":
        return f"{say.was_down} from {since} when it was last seen; what it is now is not known"
    verb = say.is_down.format(up=burning.get("up"), of=burning.get("of"))
    if verb == "is down" and str(burning.get("error") or "").startswith(NO_ANSWER):
        verb = "has not answered"
    return f"{verb} since {since}"


def cause(definition: Record, burning: Record) -> str:
    """The error and what follows from it: `no answer within 2 s; no request is served through it`."""
    error = str(burning.get("error") or "").removesuffix(".")
    parts = [
        ", ".join(burning.get("names") or []),
        f"{'the last reason was: ' if burning.get('back_ns') else ''}{error}" if error else "",
        last_up(burning),
        words(definition).effect if burning.get("state") == "firing" else "",
    ]
    return "; ".join(part for part in parts if part)


def last_up(burning: Record) -> str:
    """When it was last seen up, if that was not just before: it may have been down for longer than it was observed."""
    began, up_at = burning.get("since_ns"), burning.get("up_at_ns")
    if not began or burning.get("state") != "firing" or (up_at and began - up_at <= SOON_NS):
        return ""
    return f"it was last seen up at {clock(up_at, int(burning['at_ns']))}" if up_at else "it has never been seen up"


def resolves(definition: Record, up_for: str) -> str:
    return words(definition).resolves.format(up_for=up_for)


def clock(at_ns: int, now_ns: int) -> str:
    """`21:50:05 UTC`, with the date where it is a day ago or more."""
    at = datetime.fromtimestamp(at_ns // 10**9, UTC)
    return f"{at:%Y-%m-%d %H:%M:%S} UTC" if now_ns - at_ns >= DAY_NS else f"{at:%H:%M:%S} UTC"
