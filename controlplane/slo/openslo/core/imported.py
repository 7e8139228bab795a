"""Makes an objective of an OpenSLO document, or says why there is none.

`metricSource.type: weir` names what Weir measures itself. An SLO on another source is kept as it is, and not evaluated.
"""

import json
import math
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from controlplane.core.documents.problem import shown
from controlplane.core.documents.reading import Document
from controlplane.slo.core.burn import MinimumEvents
from controlplane.slo.core.objective import DIMENSIONS, Calendar, Objective, Occurrences, Rolling, Timeslices
from controlplane.slo.core.windows import MINUTE_S
from controlplane.slo.openslo.core import durations, weir
from controlplane.slo.openslo.core.imported_indicator import indicator_of
from controlplane.slo.openslo.core.imported_windows import CALENDAR_UNITS, windows_of
from controlplane.slo.openslo.core.located import Context, Located, annotations_in, labels_of, part_of
from controlplane.slo.openslo.core.schema import START_TIME, fits


def objective_of(document: Document, context: Context) -> Objective:
    """The objective of a valid SLO document. Raises ImportRefusedError."""
    spec = part_of(Located(document.node, "", document.source), "spec")
    target = _single(spec)
    indicator, scope = indicator_of(spec, target, context)
    notes = annotations_in(document)
    exact = _exact(notes, document.source)
    period = _period(spec, exact)
    metadata = document.node.mapping["metadata"].mapping
    name = metadata["displayName"].text if "displayName" in metadata else document.name
    description = spec.node.at("description")
    try:
        return Objective(
            slug=str(exact.get("slug", document.name)),
            name=str(exact.get("name", name)),
            indicator=indicator,
            target=_share(target),
            scope=scope,
            split_by=_split_by(notes),
            period=period,
            method=_method(spec, target, exact),
            windows=windows_of(document, context, period)[0],
            minimum=MinimumEvents(*(_whole(notes, name, at) for name, at in MINIMUM)),
            owner=_text(notes, weir.OWNER),
            runbook=_text(notes, weir.RUNBOOK),
            runbook_text=_text(notes, weir.RUNBOOK_TEXT),
            labels=dict(exact["labels"]) if "labels" in exact else labels_of(metadata.get("labels")),
            description=str(exact.get("description", description.text if description else "")),
        )
    except ValueError as error:
        raise spec.refuse(str(error), "objective") from None


DEFAULT_MINIMUM = MinimumEvents()
MINIMUM = ((weir.MINIMUM_EVENTS, DEFAULT_MINIMUM.total), (weir.MINIMUM_BAD_EVENTS, DEFAULT_MINIMUM.bad))


def _text(notes: Mapping[str, Located], name: str) -> str:
    return notes[name].node.text if name in notes else ""


def _single(spec: Located) -> Located:
    """Its only objective. Raises ImportRefusedError where there are several."""
    entries = spec.node.mapping["objectives"].items
    if fits("composite", spec.node):
        message = (
            "a composite SLO, with an indicator for each objective, is kept and not evaluated: write an SLO for each"
        )
        raise spec.refuse(message, "not-evaluated", kept=True, mark=spec.node.of_key("objectives"))
    if len(entries) > 1:
        message = f"spec.objectives has {len(entries)} entries: kept and not evaluated; write an SLO for each"
        raise spec.refuse(message, "not-evaluated", kept=True, mark=entries[1].mark)
    return Located(entries[0], "spec.objectives[0]", spec.source)


def _share(target: Located) -> float:
    percent = target.node.at("targetPercent")
    if percent:
        share = float(Decimal(str(percent.value)) / 100)
        given, path = percent, f"{target.path}.targetPercent"
    else:
        given, path = target.node.mapping["target"], f"{target.path}.target"
        share = float(given.value) if isinstance(given.value, int | float) else math.nan
    if not 0 < share < 1:
        message = f"{path}={shown(given.plain)} requires nothing: use a share above 0, such as 0.999"
        raise target.refuse(message, "range", mark=given.mark)
    return share


def _period(spec: Located, exact: Mapping[str, Any]) -> Rolling | Calendar:
    window = spec.node.at("timeWindow", 0)
    if window is None:
        return Rolling()
    duration, calendar = window.mapping["duration"], window.at("calendar")
    number, unit = durations.parts(duration.text)
    if calendar is None:
        return Rolling(int(exact.get("period_s", number * durations.SECONDS[unit])))
    if unit not in CALENDAR_UNITS:
        message = (
            f"spec.timeWindow[0].duration={duration.plain!r} has no calendar: use d, w, M, Q or Y, or a rolling window"
        )
        raise spec.refuse(message, "calendar", mark=duration.mark)
    start = datetime.strptime(calendar.mapping["startTime"].text, START_TIME)
    if "calendar_start" in exact:
        start = datetime.fromisoformat(str(exact["calendar_start"]))
    name: Any = CALENDAR_UNITS[unit]
    return Calendar(name, start, calendar.mapping["timeZone"].text, number)


def _method(spec: Located, target: Located, exact: Mapping[str, Any]) -> Occurrences | Timeslices:
    method = spec.node.mapping["budgetingMethod"]
    if method.text == "Occurrences":
        return Occurrences()
    if method.text == "RatioTimeslices":
        message = "budgetingMethod RatioTimeslices is kept and not evaluated: Weir has Occurrences and Timeslices"
        raise spec.refuse(message, "not-evaluated", kept=True, mark=method.mark)
    share, length = target.node.mapping["timeSliceTarget"], target.node.mapping["timeSliceWindow"]
    minutes = length.value if isinstance(length.value, int | float) else None
    slice_s = durations.seconds(length.text) if minutes is None else round(minutes * MINUTE_S)
    slice_target = float(share.value) if isinstance(share.value, int | float) else math.nan
    return Timeslices(int(exact.get("slice_s", slice_s)), slice_target)


def _exact(notes: Mapping[str, Located], source: str) -> dict[str, Any]:
    note = notes.get(weir.EXACT)
    if note is None:
        return {}
    kinds: dict[str, Callable[[Any], bool]] = {
        **dict.fromkeys(("slug", "name", "description", "calendar_start"), lambda value: isinstance(value, str)),
        **dict.fromkeys(("period_s", "slice_s"), lambda value: isinstance(value, int) and value > 0),
        "labels": lambda value: isinstance(value, dict) and all(isinstance(each, str) for each in value.values()),
    }
    try:
        values = json.loads(note.node.text)
        if isinstance(values, dict) and all(name in kinds and kinds[name](value) for name, value in values.items()):
            datetime.fromisoformat(values.get("calendar_start", "2026-01-01"))
            return values
    except ValueError:
        pass
    raise note.refuse(f"{note.path} is not as Weir writes it: leave it out", "annotation")


def _split_by(notes: Mapping[str, Located]) -> tuple[str, ...]:
    note = notes.get(weir.SPLIT_BY)
    if note is None:
        return ()
    dimensions = tuple(part.strip() for part in note.node.text.split(",") if part.strip())
    for part in dimensions:
        if part not in DIMENSIONS:
            message = f"{note.path}={part!r} is not a dimension: use {', '.join(DIMENSIONS)}"
            raise note.refuse(message, "annotation")
    return dimensions


def _whole(notes: Mapping[str, Located], name: str, default: int) -> int:
    note = notes.get(name)
    if note is None:
        return default
    if not (note.node.text.isascii() and note.node.text.isdigit() and len(note.node.text) < 10):
        raise note.refuse(f"{note.path}={note.node.plain!r} is not a count: use a whole number in quotes", "annotation")
    return int(note.node.text)
