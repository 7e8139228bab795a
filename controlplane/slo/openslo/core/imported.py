"""From an OpenSLO document to an objective, or to the reason why there is none. Pure.

`metricSource.type: weir` names what Weir measures itself. An SLO on another source is kept as it is, and not evaluated.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from controlplane.core.formatting import TEXT
from controlplane.slo.core.burn import MinimumEvents
from controlplane.slo.core.objective import DIMENSIONS, Calendar, Objective, Occurrences, Rolling, Timeslices
from controlplane.slo.core.sli import MEASURES, Availability, Cost, Histogram, Indicator, Latency
from controlplane.slo.core.windows import MINUTE_S, WORKBOOK, BurnWindow
from controlplane.slo.openslo.core import durations, weir
from controlplane.slo.openslo.core.kinds import START_TIME, any_text, is_composite, threshold_objectives
from controlplane.slo.openslo.core.node import Node
from controlplane.slo.openslo.core.problem import Mark, shown
from controlplane.slo.openslo.core.reading import Document
from controlplane.slo.openslo.core.schema import (
    Check,
    Fault,
    anything,
    mapping,
    one_of,
    optional,
    required,
    text,
    under,
)
from controlplane.telemetry.ledger.row import STAGES

LATENCIES = (*MEASURES, *STAGES)
OTHERS = ("cost", "histogram")
PAGES = ("page", "critical", "sev1", "high")
CALENDAR_UNITS = {"d": "day", "w": "week", "M": "month", "Q": "quarter", "Y": "year"}

SCOPE = mapping({dimension: optional(any_text) for dimension in DIMENSIONS})
LATENCY = mapping(
    {
        "measure": required(anything),
        "unit": required(one_of("ms", "s"), "write unit: ms"),
        "ttft_definition": optional(text()),
        "scope": optional(SCOPE),
    }
)
COST = mapping(
    {
        "measure": required(anything),
        "unit": required(one_of("usd_per_1k_tokens"), "write unit: usd_per_1k_tokens"),
        "scope": optional(SCOPE),
    }
)
HISTOGRAM = mapping(
    {
        "measure": required(anything),
        "metric": required(text(), "name it, such as vllm:time_to_first_token_seconds"),
        "labels": optional(anything),
        "scope": optional(SCOPE),
    }
)


@dataclass(frozen=True, slots=True)
class Context:
    """The documents that others may refer to, by kind and name."""

    documents: Mapping[tuple[str, str], Document] = field(default_factory=dict)

    def find(self, kind: str, name: str) -> Document | None:
        return self.documents.get((kind, name))


class ImportRefusedError(Exception):
    """There is no objective in it. `kept` tells an SLO that is fine and not for Weir to judge from one that is wrong."""

    def __init__(self, source: str, fault: Fault, kept: bool = False) -> None:
        super().__init__(fault.message)
        self.source, self.fault, self.kept = source, fault, kept


class Located(NamedTuple):
    """A part of a document, perhaps of another than the one it is meant for."""

    node: Node
    path: str
    source: str

    def under(self, *names: str) -> "Located | None":
        node = self.node.at(*names)
        return Located(node, under(self.path, ".".join(names)), self.source) if node else None

    def refuse(self, message: str, rule: str, *, kept: bool = False, mark: Mark | None = None) -> ImportRefusedError:
        return ImportRefusedError(self.source, Fault(mark or self.node.mark, rule, self.path, message), kept)


def objective_of(document: Document, context: Context) -> Objective:
    """Of a valid SLO document. Raises ImportRefusedError."""
    spec = _part(Located(document.node, "", document.source), "spec")
    target = _single(spec)
    indicator, scope = _indicator(spec, target, context)
    notes = _annotations(document)
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
            owner=notes[weir.OWNER].node.text if weir.OWNER in notes else "",
            runbook=notes[weir.RUNBOOK].node.text if weir.RUNBOOK in notes else "",
            labels=dict(exact["labels"]) if "labels" in exact else labels_of(metadata.get("labels")),
            description=str(exact.get("description", description.text if description else "")),
        )
    except ValueError as error:
        raise spec.refuse(str(error), "objective") from None


DEFAULT_MINIMUM = MinimumEvents()
MINIMUM = ((weir.MINIMUM_EVENTS, DEFAULT_MINIMUM.total), (weir.MINIMUM_BAD_EVENTS, DEFAULT_MINIMUM.bad))


def labels_of(node: Node | None) -> dict[str, str]:
    """A label of several values has them in one text."""
    labels = node.mapping if node else {}
    return {
        name: ",".join(item.text for item in value.items) if value.items else value.text
        for name, value in labels.items()
    }


def _part(whole: Located, *names: str) -> Located:
    part = whole.under(*names)
    if part is None:
        raise whole.refuse(f"{under(whole.path, '.'.join(names))} is missing", "required")
    return part


def _single(spec: Located) -> Located:
    """Its one objective."""
    entries = spec.node.mapping["objectives"].items
    if is_composite(spec.node):
        message = (
            "a composite SLO, with an indicator for each objective, is kept and not evaluated: write an SLO for each"
        )
        raise spec.refuse(message, "not-evaluated", kept=True, mark=spec.node.of_key("objectives"))
    if len(entries) > 1:
        message = f"spec.objectives has {len(entries)} entries: kept and not evaluated; write an SLO for each"
        raise spec.refuse(message, "not-evaluated", kept=True, mark=entries[1].mark)
    return Located(entries[0], "spec.objectives[0]", spec.source)


def _indicator(spec: Located, target: Located, context: Context) -> tuple[Indicator, dict[str, str]]:
    sli = spec.under("indicator", "spec") or _referred(spec, context)
    if metric := sli.under("thresholdMetric"):
        source = _weir_source(metric, context)
        return _threshold(source, spec, target)
    ratio = _part(sli, "ratioMetric")
    parts = {name: part for name in ("good", "bad", "total", "raw") if (part := ratio.under(name))}
    sources = {name: _weir_source(part, context) for name, part in parts.items()}
    return _availability(sources)


def _referred(spec: Located, context: Context) -> Located:
    reference = _part(spec, "indicatorRef")
    sli = context.find("SLI", reference.node.text)
    if sli is None:
        message = f"{reference.path}={reference.node.plain!r} is no SLI that is known: add it, or correct the name"
        raise reference.refuse(message, "unknown-reference")
    return _part(Located(sli.node, "", sli.source), "spec")


def _weir_source(metric: Located, context: Context) -> Located:
    """The `spec` of a metric source that Weir measures. Another is no fault."""
    source = _part(metric, "metricSource")
    kind, reference = source.node.at("type"), source.node.at("metricSourceRef")
    name = kind.text if kind else ""
    if not name and reference:
        data_source = context.find("DataSource", reference.text)
        known = data_source.node.at("spec", "type") if data_source else None
        name = known.text if known else ""
    if name.lower() != weir.SOURCE:
        what = f"type {name!r}" if name else f"metricSourceRef {reference.text!r}" if reference else "no type"
        message = f"metric source of {what} is kept and not evaluated: Weir measures those of type weir itself"
        mark = source.node.of_key("type") if kind else source.node.mark
        raise source.refuse(message, "not-evaluated", kept=True, mark=mark)
    return _part(source, "spec")


def _checked(part: Located, check: Check) -> None:
    for fault in check(part.node, part.path):
        raise ImportRefusedError(part.source, fault)


def _measure(source: Located, *known: str) -> str:
    measure = source.under("measure")
    if measure is None:
        raise source.refuse(f"{under(source.path, 'measure')} is missing: use one of {', '.join(known)}", "required")
    _checked(measure, one_of(*known))
    return measure.node.text


def _threshold(source: Located, spec: Located, target: Located) -> tuple[Indicator, dict[str, str]]:
    measure = _measure(source, *LATENCIES, *OTHERS)
    _checked(source, {"cost": COST, "histogram": HISTOGRAM}.get(measure, LATENCY))
    for fault in threshold_objectives(spec.node, spec.path):
        raise ImportRefusedError(spec.source, fault)
    operator, value = _part(target, "op"), _part(target, "value")
    if operator.node.text != "lte":
        message = f"{operator.path}={operator.node.plain!r} does not fit {measure}: what is at most the value is good, write op: lte"
        raise operator.refuse(message, "operator")
    number, given = Decimal(str(value.node.value)), source.node
    scope = given.at("scope")
    unit = given.at("unit")
    try:
        if measure == "cost":
            indicator: Indicator = Cost(float(number))
        elif measure == "histogram":
            metric = given.at("metric")
            indicator = Histogram(metric.text if metric else "", float(number), labels_of(given.at("labels")))
        else:
            definition = given.at("ttft_definition")
            in_ms = float(number * 1000) if unit and unit.text == "s" else float(number)
            indicator = Latency(measure, in_ms, **({"ttft_definition": definition.text} if definition else {}))
    except ValueError as error:
        raise value.refuse(f"{value.path}={shown(value.node.plain)}: {error}", "range") from None
    return indicator, labels_of(scope)


def _availability(sources: Mapping[str, Located]) -> tuple[Indicator, dict[str, str]]:
    for name, source in sources.items():
        _measure(source, "availability")
        if name == "raw":
            raise source.refuse("Weir counts requests and has no precomputed ratios: give good and total", "raw")
        fields = {
            "measure": required(anything),
            "count": required(one_of(name), f"write count: {name}"),
            "scope": optional(SCOPE),
        }
        _checked(source, mapping(fields))
    scopes = {name: labels_of(source.node.at("scope")) for name, source in sources.items()}
    if len({tuple(sorted(scope.items())) for scope in scopes.values()}) > 1:
        source = sources["total"]
        message = (
            f"{under(source.path, 'scope')} differs from that of the events it is the total of: give both the same"
        )
        raise source.refuse(message, "scope")
    return Availability(), next(iter(scopes.values()))


def _share(target: Located) -> float:
    percent = target.node.at("targetPercent")
    if percent:
        share = float(Decimal(str(percent.value)) / 100)
        given, path = percent, under(target.path, "targetPercent")
    else:
        given, path = target.node.mapping["target"], under(target.path, "target")
        share = float(given.value) if isinstance(given.value, int | float) else math.nan
    if not 0 < share < 1:
        message = f"{path}={shown(given.plain)} promises nothing: use a share above 0, such as 0.999"
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


def _annotations(document: Document) -> dict[str, Located]:
    annotations = document.node.at("metadata", "annotations")
    values = annotations.mapping if annotations else {}
    return {
        name: Located(node, f"metadata.annotations.{name}", document.source)
        for name, node in values.items()
        if name in weir.MEANT
    }


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
            message = f"{note.path}={part!r} is no dimension: use {', '.join(DIMENSIONS)}"
            raise note.refuse(message, "annotation")
    return dimensions


def _whole(notes: Mapping[str, Located], name: str, default: int) -> int:
    note = notes.get(name)
    if note is None:
        return default
    if not (note.node.text.isascii() and note.node.text.isdigit() and len(note.node.text) < 10):
        raise note.refuse(f"{note.path}={note.node.plain!r} is no count: use a whole number in quotes", "annotation")
    return int(note.node.text)


def windows_of(
    document: Document, context: Context, period: Rolling | Calendar
) -> tuple[tuple[BurnWindow, ...], list[Fault]]:
    """Those of the annotation; else those its alert policies describe; else the SRE workbook's. And which policies cannot be followed.

    Raises ImportRefusedError for an annotation that cannot be read.
    """
    note = _annotations(document).get(weir.WINDOWS)
    described, faults = _policies(document, context, period)
    if note is not None:
        try:
            return weir.windows_of(note.node.text), faults
        except ValueError as error:
            raise note.refuse(f"{note.path}: {error}", "annotation") from None
    return (described or WORKBOOK), faults


def _policies(
    document: Document, context: Context, period: Rolling | Calendar
) -> tuple[tuple[BurnWindow, ...], list[Fault]]:
    """A policy's condition gives the long window and the rate; the short one is a twelfth, as in the SRE workbook."""
    windows, faults = [], []
    length = period_s(period)
    for path, condition in conditions(document, context):
        fault, window = _window(condition, path, length)
        if window:
            windows.append(window)
        else:
            faults.append(fault)
    return tuple(dict.fromkeys(windows)), faults


def conditions(document: Document, context: Context) -> Iterator[tuple[Located, Node]]:
    """(where the SLO or its policy asks for it, the condition) of each that can be found."""
    policies = document.node.at("spec", "alertPolicies")
    for number, entry in enumerate(policies.items if policies else ()):
        here = Located(entry, f"spec.alertPolicies[{number}]", document.source)
        spec = _inline_or_found(entry, "alertPolicyRef", "AlertPolicy", context)
        listed = spec.at("conditions", 0) if spec else None
        condition = _inline_or_found(listed, "conditionRef", "AlertCondition", context) if listed else None
        if condition is not None and condition.at("condition") is not None:
            yield here, condition


def _inline_or_found(entry: Node, reference: str, kind: str, context: Context) -> Node | None:
    named = entry.at(reference)
    document = context.find(kind, named.text) if named else None
    return document.node.at("spec") if document else entry.at("spec")


def _window(spec: Node, where: Located, length: int) -> tuple[Fault, BurnWindow | None]:
    condition = spec.mapping["condition"].mapping
    operator, rate, look_back = condition.get("op"), condition.get("threshold"), condition.get("lookbackWindow")
    fault = Fault(where.node.mark, "condition", where.path, f"{where.path}: ")
    if operator is None or rate is None or look_back is None or not isinstance(rate.value, int | float):
        return fault._replace(message=f"{where.path} has an incomplete condition: it is not followed"), None
    severity = spec.at("severity")
    try:
        long_s = durations.seconds(look_back.text)
        if operator.text not in ("gt", "gte"):
            return fault._replace(
                message=f"{where.path} alerts when the burn rate is {operator.text} {rate.value:g}: write op: gt"
            ), None
        if long_s < 2 * MINUTE_S:
            return fault._replace(message=f"{where.path} looks back {look_back.text}: use at least 2m"), None
        share = rate.value * long_s / length
        if not 0 < share <= 1:
            message = (
                f"{where.path} alerts at {rate.value:g} times the budget over {look_back.text}, which is {TEXT.share(share)} of all of it: "
                "it can never be reached; lower threshold or lookbackWindow"
            )
            return fault._replace(message=message), None
    except ValueError as error:
        return fault._replace(message=f"{where.path}: {error}"), None
    page = severity is not None and severity.text.lower() in PAGES
    return fault, BurnWindow("page" if page else "ticket", long_s, max(MINUTE_S, long_s // 12), share)


def period_s(period: Rolling | Calendar) -> int:
    """Of a calendar's, about: months and longer differ."""
    if isinstance(period, Rolling):
        return period.period_s
    units = {name: letter for letter, name in CALENDAR_UNITS.items()}
    letter: Any = units[period.unit]
    return period.count * durations.SECONDS[letter]
