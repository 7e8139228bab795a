"""Which gateways do not obey what is in force, or have a clock that is off: they keep moving traffic as it was decided before."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from controlplane.policy.core.words import seconds
from controlplane.policy.observe.core.traffic import Heard
from inference.contract.gateway_signals import Obeyed

LATE_AFTER_S = 120.0
"""Kubernetes itself takes a minute to change a ConfigMap that is mounted."""
MAX_CLOCK_OFF_S = 10.0
"""An overlay ends on the gateway's own clock."""


class Published(NamedTuple):
    """What gateways should obey: overlay 0 is none. `last_overlay` is the highest number that one had."""

    obeyed: Obeyed
    last_overlay: int


class Late(NamedTuple):
    """Since when a gateway does not obey `published`."""

    published: Published
    since_ms: int


class Astray(NamedTuple):
    """A gateway that people have to know of, and why."""

    url: str
    text: str
    severity: Literal["page", "ticket"]


def late(before: Mapping[str, Late], heard: Iterable[Heard], published: Published, now_ms: int) -> dict[str, Late]:
    """Those that do not obey what was published, by URL. One that has caught up with that, and is behind what came later, begins anew."""
    after = {}
    for each in heard:
        known = before.get(each.url)
        if known is not None and (each.problem or _lacks(each, known.published)):
            after[each.url] = known._replace(since_ms=min(known.since_ms, now_ms))
        elif not each.problem and _lacks(each, published):
            after[each.url] = Late(published, now_ms)
    return after


def astray(heard: Iterable[Heard], behind: Mapping[str, Late], now_ms: int) -> Iterator[Astray]:
    """Those that are late for too long, and those whose clock is off. A silent one is named elsewhere."""
    for each in heard:
        if each.signals is None or each.at_ms is None or each.problem:
            continue
        whose, text, lateness = f"{each.signals.gateway} at {each.url}", "", behind.get(each.url)
        if lateness is not None and now_ms - lateness.since_ms >= LATE_AFTER_S * 1_000:
            lacking = _lacks(each, lateness.published)
            text = f"{whose} obeys {lacking}, for {seconds((now_ms - lateness.since_ms) / 1_000)} by now."
        off_s = (each.signals.at_ms - each.at_ms) / 1_000
        if abs(off_s) > MAX_CLOCK_OFF_S:
            side = "ahead of" if off_s > 0 else "behind"
            clock = f"The clock of {whose} is {seconds(abs(off_s))} {side} the controller's: overlays end by it."
            yield Astray(each.url, f"{text} {clock}".strip(), "page" if text else "ticket")
        elif text:
            yield Astray(each.url, text, "page")


def _lacks(heard: Heard, published: Published) -> str:
    """What it obeys instead of what was published; empty where it obeys that, or something later."""
    if heard.signals is None:
        return ""
    its, wanted = heard.signals.snapshot, published.obeyed
    if its.version < wanted.version:
        return f"version {its.version} of the policy snapshot and not {wanted.version}"
    if its.overlay_version < wanted.overlay_version or (
        not wanted.overlay_version and 0 < its.overlay_version <= published.last_overlay
    ):
        return f"overlay {its.overlay_version or 'none'} and not {wanted.overlay_version or 'none'}"
    if its.endpoints_version < wanted.endpoints_version:
        return f"version {its.endpoints_version} of the endpoints and not {wanted.endpoints_version}"
    return ""
