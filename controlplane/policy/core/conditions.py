"""Conditions that owners write, in CEL, the Common Expression Language (github.com/google/cel-spec).

They are compiled and their types are checked when a policy is saved. All numbers are doubles, so that a ratio needs no
conversion. A variable whose value is unknown is absent: the condition is unknown then, unless the rest of it decides.
"""

import difflib
import functools
import itertools
import math
import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from cel_expr_python import cel

Where = Literal["ladder", "failover", "hold"]


class Between(NamedTuple):
    """A number of which only bounds are known."""

    low: float
    high: float


Value = float | bool | str | Between | None

_OF_POOLS = {
    "arrived_rps": "requests/s that arrive",
    "waiting": "requests that wait for a place",
    "queue_delay_s": "mean wait for a place, s",
    "running": "requests that model servers work on",
    "in_flight": "requests sent to replicas and not answered yet",
    "kv_use": "use of the KV cache, 0..1",
    "ready": "ready replicas",
    "starting": "replicas that were created and are not ready",
    "pending": "replicas that have no node",
    "wanted": "replicas that the cluster is to have",
    "saturation": "load / what the ready replicas carry, 0 and up",
}
_OF_OBJECTIVES = {
    "burn_rate_fast": "burn rate over the shortest windows",
    "burn_rate_slow": "burn rate over the longer windows",
    "budget_left": "share of the error budget that is left",
    "attainment": "share of good requests",
}
_OF_CLOCK = {"hour_utc": "hour of the day in UTC, 0..24", "weekday_utc": "1 is Monday, 7 is Sunday"}

VARIABLES: dict[Where, dict[str, str]] = {
    "ladder": {
        **_OF_POOLS,
        **{name: f"{text}, the worst of the tiers that the step protects" for name, text in _OF_OBJECTIVES.items()},
        **{f"own_{name}": f"{text}, of the tier itself" for name, text in _OF_OBJECTIVES.items()},
        "own_arrived_rps": "requests/s of the tier",
        **_OF_CLOCK,
    },
    "failover": {**_OF_POOLS, **_OF_OBJECTIVES, **_OF_CLOCK},
    "hold": {
        **_OF_POOLS,
        "draining": "replicas that end their requests",
        "cpu_use": "use of the CPUs, 0..1",
        **_OF_CLOCK,
    },
}
"""The numbers that a condition may use, with what they mean."""

TRUTHS: dict[Where, dict[str, str]] = {
    "ladder": {"at_most": "no pool of the model can get more replicas"},
    "failover": {
        "reachable": "whether any replica of the pools answers",
        "cluster_up": "whether all clusters of the pools answer",
    },
    "hold": {"cluster_up": "whether the cluster answers"},
}
"""The truth values that a condition may use."""

_NAME = re.compile(r"[A-Za-z_]\w*")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_WHOLE = re.compile(r"(?<![\w.])(\d+)(?![\w.])")
_PLACE = re.compile(r"<input>:(\d+):(\d+): (.*)")
_UNDECLARED = re.compile(r"undeclared reference to '([^']*)'")


class Truth(NamedTuple):
    """Whether a condition holds. None: it is unknown, because of the variables in `unknown`."""

    holds: bool | None
    unknown: tuple[str, ...] = ()


def fault_of(condition: str, where: Where) -> str:
    """Why a condition cannot be saved, with a remedy. Empty: it can be."""
    try:
        compiled = _compile(condition, where)
    except RuntimeError as error:
        return _explained(condition, where, str(error))
    kind = compiled.return_type().name()
    if kind != "BOOL":
        return f"{condition!r} gives {kind.lower()}, not true or false: compare it, such as {_example(condition, kind)}"
    return ""


def holds(condition: str, where: Where, values: Mapping[str, Value]) -> Truth:
    """Whether the condition holds with these values. A value of None is unknown, and so is a condition that holds at some bounds only
    of values that lie between two. An empty condition never holds.
    """
    if not condition.strip():
        return Truth(False)
    used = {name: values.get(name) for name in names_in(condition, where)}
    between = {name: value for name, value in used.items() if isinstance(value, Between)}
    if between:
        corners = itertools.product(*between.values())
        truths = [holds(condition, where, {**used, **dict(zip(between, corner, strict=True))}) for corner in corners]
        same = all(truth.holds == truths[0].holds for truth in truths)
        return truths[0] if same else Truth(None, tuple(between))
    known = {name: value for name, value in used.items() if value is not None and not _is_nan(value)}
    try:
        result = _compile(condition, where).eval(data=known)
    except RuntimeError:
        return Truth(None, ("a condition that cannot be read",))
    if result.type() == cel.Type.BOOL:
        return Truth(bool(result.value()))
    return Truth(None, tuple(name for name in used if name not in known))


@functools.cache
def names_in(condition: str, where: Where) -> tuple[str, ...]:
    """The variables that a condition uses, in order."""
    names = dict.fromkeys(_NAME.findall(_QUOTED.sub("''", condition)))
    return tuple(name for name in names if name in VARIABLES[where] or name in TRUTHS[where])


@functools.cache
def _environment(where: Where) -> Any:
    numbers = dict.fromkeys(VARIABLES[where], cel.Type.DOUBLE)
    return cel.NewEnv(variables={**numbers, **dict.fromkeys(TRUTHS[where], cel.Type.BOOL)})


@functools.lru_cache(maxsize=4096)
def _compile(condition: str, where: Where) -> Any:
    """Raises RuntimeError."""
    return _environment(where).compile(condition)


def _is_nan(value: Value) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _explained(condition: str, where: Where, error: str) -> str:
    """CEL's error with a place and a remedy."""
    place = _PLACE.search(error)
    at = f"column {place[2]}" if place and place[1] == "1" else f"line {place[1]}, column {place[2]}" if place else "it"
    what = place[3].removesuffix(" [INVALID_ARGUMENT]") if place else error
    known = [*VARIABLES[where], *TRUTHS[where]]
    if undeclared := _UNDECLARED.search(what):
        name = undeclared[1]
        near = difflib.get_close_matches(name, known, 1)
        remedy = f"write {near[0]!r}" if near else f"use one of {', '.join(known)}"
        return f"{condition!r}, {at}: {name!r} is not known here: {remedy}"
    if "no matching overload" in what:
        with_points = _WHOLE.sub(r"\1.0", condition)
        if with_points != condition and _compiles(with_points, where):
            return f"{condition!r}, {at}: every number here has a decimal point: write {with_points!r}"
        return (
            f"{condition!r}, {at}: {what}: compare numbers with numbers such as 2.0, and true or false with && and ||"
        )
    return f"{condition!r}, {at}: {what}: write CEL, such as 'queue_delay_s > 2.0 && waiting > 10.0'"


def _compiles(condition: str, where: Where) -> bool:
    try:
        _compile(condition, where)
    except RuntimeError:
        return False
    return True


def _example(condition: str, kind: str) -> str:
    return repr(f"{condition} > 1.0") if kind == "DOUBLE" else "'queue_delay_s > 2.0'"
