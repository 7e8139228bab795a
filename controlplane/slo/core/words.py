"""Describes objectives in words, for pages and messages."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from controlplane.core.formatting import TEXT
from controlplane.slo.core.burn import highest_burn_rate
from controlplane.slo.core.objective import DIMENSIONS, Calendar, Objective, Timeslices
from controlplane.slo.core.period import SECOND_NS, Span
from controlplane.slo.core.sli import Availability, Cost, Histogram, Indicator, Latency
from controlplane.slo.core.windows import BurnWindow

SHOWN_AS = {"ttft": "time to first token", "itl": "gap between tokens", "e2e": "whole request"}


def indicator(value: Indicator) -> str:
    match value:
        case Availability():
            return "requests are answered" + (", clients' mistakes counted" if value.count_client_errors else "")
        case Latency():
            of = f" ({value.ttft_definition})" if value.measure == "ttft" else ""
            return f"{SHOWN_AS.get(value.measure, f'{value.measure} time')}{of} is at most {TEXT.threshold_ms(value.threshold_ms)}"
        case Cost():
            return f"1,000 tokens cost at most {value.usd_per_1k_tokens:g} USD"
        case Histogram():
            return f"{value.metric} is at most {value.threshold:g}"


def summary(objective: Objective) -> str:
    slices = ""
    if isinstance(objective.method, Timeslices):
        length, target = TEXT.duration(objective.method.slice_s), TEXT.target(objective.method.slice_target)
        slices = f" of {length} slices with {target} good requests"
    return f"{TEXT.target(objective.target)}{slices}: {indicator(objective.indicator)}, over {period(objective)}"


def period(objective: Objective) -> str:
    value = objective.period
    if isinstance(value, Calendar):
        return f"each {value.unit}" if value.count == 1 else f"each {value.count} {value.unit}s"
    return f"the last {TEXT.duration(value.period_s)}"


def scope(value: Mapping[str, str]) -> str:
    """`model chat-large · no pool`, in the order of DIMENSIONS: a database may keep another."""
    ordered = [(name, value[name]) for name in DIMENSIONS if name in value]
    said = (f"{_name(name)} {value}" if value else f"no {_name(name)}" for name, value in ordered)
    return " · ".join(said) or "all traffic"


def missing_values(value: Mapping[str, str]) -> str:
    """Explains a scope in which a dimension has no value; empty where all have one."""
    without = [name for name in DIMENSIONS if value.get(name) == ""]
    if not without:
        return ""
    reached = [_name(name) for name in without if name in ("pool", "variant", "region")]
    named = [_name(name) for name in without if name not in ("pool", "variant", "region")]
    parts = (
        [f"reached no {' and no '.join(reached)}: answered by the cache, refused, or failed before"] if reached else []
    )
    parts += [f"name no {' and no '.join(named)}"] if named else []
    return f"Requests that {', and '.join(parts)}."


def _name(dimension: str) -> str:
    return dimension.replace("_", " ")


def silent_window(window: BurnWindow, target: float, period_s: int) -> str:
    """Why a burn window never fires, and what to do."""
    highest = highest_burn_rate(target)
    return (
        f"{_window(window)} never fires: its threshold is a burn rate of {TEXT.times(window.burn_rate(period_s))}, and at a "
        f"target of {TEXT.target(target)} a total outage burns at {TEXT.times(highest)}; "
        f"give it a share of the budget below {_rounded_down(highest * window.long_s / period_s):g}, or remove it"
    )


def coarse_window(window: BurnWindow, slice_s: int) -> str:
    """Why a burn window that is shorter than a slice ends early, and what to do."""
    return (
        f"{_window(window)} is shorter than a slice of {TEXT.duration(slice_s)}: it shows only the current slice, so an alert "
        "may end when the next slice begins; "
        f"use slices of at most {TEXT.duration(window.short_s)}, or longer windows"
    )


def _window(window: BurnWindow) -> str:
    return f"the {window.severity} window of {TEXT.duration(window.long_s)} and {TEXT.duration(window.short_s)}"


def _rounded_down(value: float) -> float:
    """To two significant digits."""
    unit = math.pow(10, math.floor(math.log10(value)) - 1)
    return round(math.floor(value / unit) * unit, 12)


def recorded_part(recorded_s: int | None, period_from_s: int, at_s: int) -> str:
    """How much of the period is recorded, such as `31 min of 30 days`; empty if all of it is. Times are s since the epoch."""
    so_far_s = at_s - period_from_s
    recorded = so_far_s if recorded_s is None else at_s - max(recorded_s, period_from_s)
    if recorded >= so_far_s - 60:
        return ""
    return f"{TEXT.duration(max(recorded, 0))} of {TEXT.duration(so_far_s)}"


def unmeasured(missed: Mapping[str, Any] | None, total: int, minute: Callable[[int], str]) -> str:
    """What was not measured of a period, as `core.gaps.document` has it; empty where nothing is missing. `total` was measured, and
    `minute` writes a time, ns since the epoch: `10 min were not measured (about 3 200 requests, 4 % of all): … to …, “telemetry is down”`.
    """
    if not missed:
        return ""
    requests, each = missed["requests"], missed["gaps"]
    share = "" if requests is None or missed["of_more"] else f", {TEXT.share(requests / (requests + total))} of all"
    times = "; ".join(
        f"{minute(gap['from_s'] * SECOND_NS)} to {minute(gap['to_s'] * SECOND_NS)}"
        + (f" ({_about(gap['requests'], missed['of_more'])})" if each[1:] else "")
        + f", “{gap['why']}”"
        for gap in each
    )
    earlier = f"; and {TEXT.counted(missed['others'], 'earlier time')}" if missed["others"] else ""
    how_much = f"{TEXT.duration(missed['seconds'])} were {not_measured(missed)}"
    return f"{how_much} ({_about(requests, missed['of_more'])}{share}): {times}{earlier}"


def not_measured(missed: Mapping[str, Any]) -> str:
    """Whether all requests of the times are missing, or some while others arrived."""
    return "not fully measured" if missed.get("in_part") else "not measured"


def _about(requests: int | None, of_more: bool) -> str:
    if requests is None:
        return "nobody knows how many requests"
    about = f"about {TEXT.counted(requests, 'request')}"
    return f"{about} of its model and tier, of which its own are not known" if of_more else about


def part_of(seen: Span, period: Span) -> str:
    """`3 % of the 30 days`: how much of a period was seen; empty if it is all that has passed of it."""
    if seen.from_ns - period.from_ns < 60 * SECOND_NS:
        return ""
    return f"{TEXT.share(seen.length_s / period.length_s)} of the {TEXT.duration(period.length_s)}"


def no_requests(objective: Objective) -> str:
    """Why an objective without events in the whole period is not judged."""
    over = "so far in this period" if isinstance(objective.period, Calendar) else f"in {period(objective)}"
    each = (
        f"; each {' and '.join(map(_name, objective.split_by))} is judged from its first request on"
        if objective.split_by
        else ""
    )
    return f"no request {over}{each}"


def change(now: float | None, then: float | None) -> str:
    """How a share of good events differs from an earlier one, in percentage points; empty where one of them is not known."""
    if now is None or then is None:
        return ""
    points = f"{abs(now - then) * 100:.2g}"
    return "the same" if float(points) == 0 else f"{points} points {'better' if now > then else 'worse'}"


def used_up_in(seconds: float | None, left: float | None) -> str:
    """When the budget is used up at this rate."""
    if left is not None and left <= 0:
        return "used up"
    return "" if seconds is None else f"used up in {TEXT.duration(max(seconds, 60))} at this rate"
