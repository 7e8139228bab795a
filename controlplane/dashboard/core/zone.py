"""The time zone that the page being made shows its times in, and times as people write them there. Data, URLs and exports stay UTC."""

import difflib
import re
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from controlplane.telemetry.query.core.errors import BadQuestionError
from controlplane.telemetry.query.core.timerange import SECOND_NS

OFFERED = (
    "UTC", "Europe/London", "Europe/Berlin", "Europe/Helsinki", "America/New_York", "America/Chicago",
    "America/Los_Angeles", "America/Sao_Paulo", "Asia/Kolkata", "Asia/Shanghai", "Asia/Tokyo", "Australia/Sydney",
)  # fmt: skip
WITHOUT_OFFSET = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?", re.ASCII)
"""A time that is of the zone that the reader chose: what a calendar field sends."""
_ZONE: ContextVar[tzinfo] = ContextVar("zone", default=UTC)
_OF_URL: ContextVar[bool] = ContextVar("zone_of_url", default=False)


def named(name: str) -> ZoneInfo:
    """Raises BadQuestionError."""
    if name not in available_timezones():
        near = difflib.get_close_matches(name, available_timezones(), 1)
        remedy = f"Did you mean {near[0]}" if near else "Write a name such as Europe/Berlin, or UTC"
        raise BadQuestionError("tz", name, "is not the name of a time zone", remedy)
    return ZoneInfo(name)


def use(zone: tzinfo, *, of_url: bool = False) -> None:
    _ZONE.set(zone)
    _OF_URL.set(of_url)


def of_url() -> list[tuple[str, str]]:
    """The parameter that says the zone, where the page's own URL does: its links say it too."""
    return [("tz", said())] if _OF_URL.get() else []


def said() -> str:
    """The zone's name, as it stands beside times."""
    return str(_ZONE.get())


def read(field: str, text: str, zone: tzinfo, later: bool = False) -> datetime:
    """A time that has no offset, of `zone`, as UTC. One that clocks show twice is the first, or the `later`. Raises BadQuestionError."""
    try:
        at = datetime.fromisoformat(text).replace(tzinfo=zone, fold=int(later))
        back = at.astimezone(UTC).astimezone(zone)
    except (ValueError, OverflowError):
        raise BadQuestionError(field, text, "is not a time", "Write one such as 2026-11-20T14:05") from None
    if back.replace(tzinfo=None) != at.replace(tzinfo=None):
        skipped = at.replace(fold=0).astimezone(UTC).astimezone(zone)
        raise BadQuestionError(
            field, text, f"does not exist in {zone}: clocks were put forward", f"Write {skipped:%Y-%m-%dT%H:%M}"
        )
    return at.astimezone(UTC)


def local(at_ns: int) -> datetime:
    return datetime.fromtimestamp(at_ns // SECOND_NS, UTC).astimezone(_ZONE.get())


def moment(at_ns: int) -> str:
    """To the millisecond: `2026-11-20 14:05:00.250`."""
    return _once(at_ns, f"{local(at_ns):%Y-%m-%d %H:%M:%S}.{at_ns // 1_000_000 % 1000:03d}")


def minute(at_ns: int) -> str:
    """`2026-11-20 14:05`."""
    return _once(at_ns, f"{local(at_ns):%Y-%m-%d %H:%M}")


def clock(at_ns: int) -> str:
    """`14:05:00`."""
    return _once(at_ns, f"{local(at_ns):%H:%M:%S}")


def clock_minute(at_ns: int) -> str:
    """`14:05`."""
    return _once(at_ns, f"{local(at_ns):%H:%M}")


def at(when: datetime) -> str:
    """With the zone: `2026-11-20 14:05 UTC`."""
    return f"{minute(int(when.timestamp()) * SECOND_NS)} {said()}"


def _once(at_ns: int, text: str) -> str:
    return f"{text}{which_of_two(local(at_ns))}"


def which_of_two(at: datetime) -> str:
    """The zone's abbreviation in an hour that clocks show twice, as it stands behind a time: ` CEST`; empty at others."""
    return f" {at.tzname()}" if at.utcoffset() != at.replace(fold=1 - at.fold).utcoffset() else ""


def shifted(figure: Any) -> Any:
    """A figure over time as clocks in the zone show it: all of it at the offset of its end, which its axis says, so that no hour is
    missing or doubled. `meta.offset_ms` leads back."""
    if _ZONE.get() is UTC or not figure:
        return figure
    layout = figure["layout"]
    axes = {name: axis for name, axis in layout.items() if name.startswith("xaxis") and axis.get("type") == "date"}
    ends_ms = next((axis["range"][1] for axis in axes.values() if axis.get("range")), None)
    if ends_ms is None:
        return figure
    offset = local(int(ends_ms * 1_000_000)).utcoffset() or timedelta()
    ms = offset.total_seconds() * 1000
    name = f"{said()}, {timezone(offset)}"
    moved = {
        key: {
            **axis,
            "range": [at + ms for at in axis["range"]],
            "hoverformat": axis["hoverformat"].replace("UTC", said()),
            "title": {**axis["title"], "text": axis["title"]["text"].replace("UTC", name)},
        }
        for key, axis in axes.items()
    }
    meta = layout.get("meta", {})
    marks = {kind: [_moved(mark, ms) for mark in layout[kind]] for kind in ("shapes", "annotations") if kind in layout}
    own = {"offset_ms": ms, **({"x": [at + ms for at in meta["x"]]} if "x" in meta else {})}
    return {
        **figure,
        "data": [
            {**trace, "x": [_later(at, ms) for at in trace["x"]]} if "x" in trace else trace for trace in figure["data"]
        ],
        "layout": {**layout, **moved, **marks, "meta": {**meta, **own}},
    }


def _moved(mark: dict[str, Any], ms: float) -> dict[str, Any]:
    if mark.get("xref", "x") != "x":
        return mark
    return {**mark, **{key: _later(mark[key], ms) for key in ("x", "x0", "x1") if key in mark}}


def _later(at: Any, ms: float) -> Any:
    return at + ms if isinstance(at, int | float) else at
