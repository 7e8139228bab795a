"""Makes an OpenSLO document of an objective.

The document contains every field, so that `imported` gives the same objective. An objective that came from a document keeps the
document's other parts and order of keys, and its text if nothing changed.
"""

import copy
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from controlplane.core.documents.reading import Document
from controlplane.core.documents.writing import write_yaml
from controlplane.core.formatting import relative, shortened
from controlplane.slo.core.objective import Calendar, Objective, Timeslices
from controlplane.slo.core.sli import Availability, Cost, Latency
from controlplane.slo.openslo.core import weir
from controlplane.slo.openslo.core.imported import objective_of
from controlplane.slo.openslo.core.imported_windows import CALENDAR_UNITS
from controlplane.slo.openslo.core.located import Context, ImportRefusedError
from controlplane.slo.openslo.core.schema import DEFINITIONS, START_TIME

Tree = dict[str, Any]
NAME, LABEL_KEY = (re.compile(DEFINITIONS[name]["pattern"]) for name in ("name", "labelKey"))
LETTERS = {unit: letter for letter, unit in CALENDAR_UNITS.items()}
ANYWHERE = "llm-serving"
"""`service` of an objective without a model in its scope."""


def exported(objective: Objective, source: Document | None = None, context: Context | None = None) -> str:
    """The text of its document: the source's own text if that describes the same objective."""
    if source is None:
        return write_yaml(document_of(objective))
    try:
        if objective_of(source, context or Context()) == replace(objective, revision=1):
            return source.text
    except ImportRefusedError:
        pass
    return write_yaml(merged(source.node.plain_mapping, document_of(objective)))


def document_of(objective: Objective) -> Tree:
    exact: Tree = {}
    metadata: Tree = {"name": name_of(objective.slug)}
    if metadata["name"] != objective.slug:
        exact["slug"] = objective.slug
    _text(metadata, "displayName", objective.name, 63, "name", exact)
    if not objective.name:
        exact["name"] = ""
    if all(LABEL_KEY.match(key) for key in objective.labels):
        metadata.update({"labels": dict(objective.labels)} if objective.labels else {})
    else:
        exact["labels"] = dict(objective.labels)
    metadata["annotations"] = annotations(objective)
    spec: Tree = {}
    _text(spec, "description", objective.description, 1050, "description", exact)
    spec["service"] = objective.scope.get("model") or ANYWHERE
    spec["indicator"] = {"metadata": {"name": name_of(objective.slug)}, "spec": indicator_of(objective)}
    spec["timeWindow"] = [_time_window(objective, exact)]
    spec["budgetingMethod"] = "Timeslices" if isinstance(objective.method, Timeslices) else "Occurrences"
    spec["objectives"] = [_target(objective, exact)]
    if exact:
        metadata["annotations"][weir.EXACT] = json.dumps(exact, ensure_ascii=False, sort_keys=True)
    return {"apiVersion": "openslo/v1", "kind": "SLO", "metadata": metadata, "spec": spec}


def name_of(slug: str) -> str:
    """A valid OpenSLO name for a slug."""
    if NAME.match(slug):
        return slug
    return re.sub(r"[^a-z0-9]+", "-", slug.lower())[:63].strip("-") or "objective"


def _text(into: Tree, field: str, value: str, most: int, name: str, exact: Tree) -> None:
    if value:
        into[field] = shortened(value, most)
    if len(value) > most:
        exact[name] = value


def annotations(objective: Objective) -> dict[str, str]:
    values = {
        weir.OWNER: objective.owner,
        weir.RUNBOOK: objective.runbook,
        weir.RUNBOOK_TEXT: objective.runbook_text,
        weir.SPLIT_BY: ", ".join(objective.split_by),
        weir.MINIMUM_EVENTS: str(objective.minimum.total),
        weir.MINIMUM_BAD_EVENTS: str(objective.minimum.bad),
        weir.WINDOWS: weir.windows_text(objective.windows),
    }
    return {key: value for key, value in values.items() if value}


def indicator_of(objective: Objective) -> Tree:
    indicator, scope = objective.indicator, {"scope": dict(objective.scope)} if objective.scope else {}
    if isinstance(indicator, Availability):
        errors = {"client_errors": "bad"} if indicator.count_client_errors else {}
        what: Tree = {"measure": "availability", **errors, **scope}
        parts = {
            part: {"metricSource": {"type": weir.SOURCE, "spec": {**what, "count": part}}} for part in ("good", "total")
        }
        return {"ratioMetric": {"counter": True, **parts}}
    if isinstance(indicator, Latency):
        definition = {"ttft_definition": indicator.ttft_definition}
        what = {"measure": indicator.measure, "unit": "ms", **(definition if _defines(indicator) else {})}
    elif isinstance(indicator, Cost):
        what = {"measure": "cost", "unit": "usd_per_1k_tokens"}
    else:
        what = {"measure": "histogram", "metric": indicator.metric}
        what.update({"labels": dict(indicator.labels)} if indicator.labels else {})
    return {"thresholdMetric": {"metricSource": {"type": weir.SOURCE, "spec": {**what, **scope}}}}


def _defines(indicator: Latency) -> bool:
    return indicator.measure == "ttft" or indicator.ttft_definition != "gateway"


def threshold(objective: Objective) -> float | None:
    indicator = objective.indicator
    if isinstance(indicator, Availability):
        return None
    if isinstance(indicator, Latency):
        return indicator.threshold_ms
    return indicator.usd_per_1k_tokens if isinstance(indicator, Cost) else indicator.threshold


def _time_window(objective: Objective, exact: Tree) -> Tree:
    period = objective.period
    if isinstance(period, Calendar):
        if period.start != period.start.replace(microsecond=0):
            exact["calendar_start"] = period.start.isoformat()
        return {
            "duration": f"{period.count}{LETTERS[period.unit]}",
            "isRolling": False,
            "calendar": {"startTime": _wall(period), "timeZone": period.zone},
        }
    return {"duration": _duration(period.period_s, "period_s", exact), "isRolling": True}


def _wall(period: Calendar) -> str:
    return f"{period.start.year:04d}" + period.start.strftime(START_TIME.removeprefix("%Y"))


def _duration(length_s: int, name: str, exact: Tree) -> str:
    try:
        return relative(length_s, "dhm")
    except ValueError:
        exact[name] = length_s
        return f"{max(1, round(length_s / 60))}m"


def _target(objective: Objective, exact: Tree) -> Tree:
    value = threshold(objective)
    target: Tree = {} if value is None else {"op": "lte", "value": value}
    target["target"] = objective.target
    if isinstance(objective.method, Timeslices):
        target["timeSliceTarget"] = objective.method.slice_target
        target["timeSliceWindow"] = _duration(objective.method.slice_s, "slice_s", exact)
    return target


def merged(source: Mapping[str, Any], wanted: Mapping[str, Any]) -> Tree:
    """`source` with the values of `wanted`, key by key. Keys that Weir does not know stay."""
    tree = copy.deepcopy(dict(source))
    metadata = {**dict(tree.get("metadata") or {})}
    kept = {key: value for key, value in (metadata.get("annotations") or {}).items() if key not in weir.MEANT}
    metadata = {key: value for key, value in metadata.items() if key not in ("displayName", "labels", "annotations")}
    metadata.update({**wanted["metadata"], "annotations": {**kept, **wanted["metadata"]["annotations"]}})
    spec = dict(tree.get("spec") or {})
    service = spec.get("service")
    for name in ("indicatorRef", "description"):
        spec.pop(name, None)
    spec.update({**wanted["spec"], **({"service": service} if service else {})})
    return {**tree, "metadata": metadata, "spec": spec}
