"""Converts objectives to JSON documents and back. The API speaks them, revisions keep them, and changes are found by comparing them."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from controlplane.slo.core.burn import MinimumEvents
from controlplane.slo.core.objective import Calendar, Objective, Occurrences, Rolling, Timeslices
from controlplane.slo.core.sli import Availability, Cost, Histogram, Indicator, Latency
from controlplane.slo.core.windows import WORKBOOK, BurnWindow

Document = dict[str, Any]

INDICATORS: dict[str, type[Indicator]] = {
    "availability": Availability,
    "latency": Latency,
    "cost": Cost,
    "histogram": Histogram,
}
PERIODS: dict[str, type[Rolling | Calendar]] = {"rolling": Rolling, "calendar": Calendar}
METHODS: dict[str, type[Occurrences | Timeslices]] = {"occurrences": Occurrences, "timeslices": Timeslices}
UNITS = ("day", "week", "month", "quarter", "year")
PLAIN = ("slug", "name", "target", "owner", "runbook", "runbook_text", "description")


def kind_of(part: object, kinds: Mapping[str, type[Any]]) -> str:
    return next(name for name, kind in kinds.items() if type(part) is kind)


def objective_to_json(objective: Objective) -> Document:
    """Every field but the revision. Units are in the names."""
    period: Document = {"kind": kind_of(objective.period, PERIODS), **asdict(objective.period)}
    if isinstance(objective.period, Calendar):
        period["start"] = objective.period.start.isoformat()
    return {
        **{name: getattr(objective, name) for name in PLAIN},
        "indicator": {"kind": kind_of(objective.indicator, INDICATORS), **asdict(objective.indicator)},
        "scope": dict(objective.scope),
        "split_by": list(objective.split_by),
        "period": period,
        "method": {"kind": kind_of(objective.method, METHODS), **asdict(objective.method)},
        "windows": [asdict(window) for window in objective.windows],
        "minimum": asdict(objective.minimum),
        "labels": dict(objective.labels),
    }


def objective_from_json(document: Mapping[str, Any]) -> Objective:
    """Missing parts have their defaults. Raises ValueError, which names the field, the value and the remedy."""
    known = {*PLAIN, "indicator", "scope", "split_by", "period", "method", "windows", "minimum", "labels"}
    if unknown := set(document) - known:
        raise ValueError(f"{min(unknown)}={document[min(unknown)]!r} is not a field: use {', '.join(sorted(known))}")
    for name in ("slug", "name", "indicator", "target"):
        if name not in document:
            raise ValueError(f"{name}=None is missing: give it")
    windows = document.get("windows")
    return Objective(
        slug=str(document["slug"]),
        name=str(document["name"]),
        indicator=_part("indicator", document["indicator"], INDICATORS),
        target=_number("target", document["target"]),
        scope=_texts("scope", document.get("scope", {})),
        split_by=tuple(map(str, document.get("split_by", ()))),
        period=_part("period", _started(document.get("period", {"kind": "rolling"})), PERIODS),
        method=_part("method", document.get("method", {"kind": "occurrences"}), METHODS),
        windows=WORKBOOK if windows is None else tuple(_made("windows", window, BurnWindow) for window in windows),
        minimum=_made("minimum", document.get("minimum", {}), MinimumEvents),
        owner=str(document.get("owner", "")),
        runbook=str(document.get("runbook", "")),
        runbook_text=str(document.get("runbook_text", "")),
        labels=_texts("labels", document.get("labels", {})),
        description=str(document.get("description", "")),
    )


def _started(period: Any) -> Any:
    """The period with its start as a wall time."""
    if not isinstance(period, Mapping) or not isinstance(period.get("start"), str):
        return period
    try:
        start = datetime.fromisoformat(period["start"])
    except ValueError:
        raise ValueError(f"calendar_start={period['start']!r} is not a time: write 2026-01-01T00:00:00") from None
    if start.tzinfo is not None:
        raise ValueError(f"calendar_start={period['start']!r} has an offset: give wall time, and the zone beside it")
    return {**period, "start": start}


def _part(name: str, given: Any, kinds: Mapping[str, type[Any]]) -> Any:
    kind = given.get("kind") if isinstance(given, Mapping) else None
    if not isinstance(kind, str) or kind not in kinds:
        raise ValueError(f"{name}={given!r} has no known kind: use {', '.join(kinds)} as its kind")
    return _made(name, {key: value for key, value in given.items() if key != "kind"}, kinds[kind])


def _made(name: str, given: Any, make: Callable[..., Any]) -> Any:
    if not isinstance(given, Mapping):
        raise ValueError(f"{name}={given!r} is not an object: give its fields by name")  # noqa: TRY004  (input, not a bug)
    fields = make.__dataclass_fields__  # type: ignore[attr-defined]
    if unknown := set(given) - set(fields):
        raise ValueError(
            f"{name}.{min(unknown)}={given[min(unknown)]!r} is not a field: use {', '.join(fields) or 'none'}"
        )
    try:
        return make(**given)
    except TypeError as error:
        raise ValueError(f"{name}={dict(given)!r} cannot be understood: {error}") from None


def _number(name: str, given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise ValueError(f"{name}={given!r} is not a number")  # noqa: TRY004
    return float(given)


def _texts(name: str, given: Any) -> dict[str, str]:
    if not isinstance(given, Mapping):
        raise ValueError(f"{name}={given!r} is not an object: give values by name")  # noqa: TRY004
    return {str(key): str(value) for key, value in given.items()}
