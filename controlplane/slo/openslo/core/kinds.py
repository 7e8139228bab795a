"""OpenSLO v1: the seven kinds, field by field."""

import re
from collections.abc import Iterator
from datetime import datetime

from controlplane.core.documents.node import Node
from controlplane.core.documents.problem import Problem
from controlplane.core.documents.reading import Document
from controlplane.slo.core.period import zone
from controlplane.slo.openslo.core.schema import (
    DNS_LABEL,
    Check,
    Fault,
    Field,
    anything,
    at_most_one,
    boolean,
    duration,
    each,
    either,
    exactly_one,
    filled,
    mapping,
    number,
    one_of,
    optional,
    required,
    table,
    text,
    under,
)

API_VERSION = "openslo/v1"
BUDGETING = ("Occurrences", "Timeslices", "RatioTimeslices")
OPERATORS = ("lte", "gte", "lt", "gt")
START_TIME = "%Y-%m-%d %H:%M:%S"

LABEL_KEY = re.compile(r"[a-zA-Z0-9]([-._a-zA-Z0-9]{0,61}[a-zA-Z0-9])?")
ANNOTATION_KEY = re.compile(
    r"(?=(.{0,253}/)?[^/]{0,63}\Z)([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*/)?"
    r"[a-zA-Z0-9]([-._a-zA-Z0-9]{0,61}[a-zA-Z0-9])?"
)


def any_text(node: Node, path: str) -> Iterator[Fault]:
    """Text, which may be empty."""
    if node.value != "":
        yield from text()(node, path)


def label(node: Node, path: str) -> Iterator[Fault]:
    """A text or a list of texts."""
    yield from (each(any_text) if isinstance(node.value, list) else any_text)(node, path)


NAME = text(
    pattern=DNS_LABEL, remedy="is not a name: use at most 63 of a-z, 0-9 and -, with a letter or digit at both ends"
)
DESCRIPTION = text(1050)
METADATA = mapping(
    {
        "name": required(NAME, "name it, such as chat-latency"),
        "displayName": optional(text(63)),
        "labels": optional(
            table(
                LABEL_KEY,
                "use at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends",
                label,
            )
        ),
        "annotations": optional(
            table(
                ANNOTATION_KEY,
                "use a name of at most 63 letters, digits, '-', '_' and '.', after an optional domain and '/'",
                any_text,
            )
        ),
    }
)


def inline(kind: str, spec: Check, reference: str) -> Check:
    """An entry of a list that is either a reference or a whole object."""
    fields = {
        reference: optional(NAME),
        "apiVersion": optional(one_of(API_VERSION)),
        "kind": optional(one_of(kind)),
        "metadata": optional(METADATA),
        "spec": optional(spec),
    }

    def whole(node: Node, path: str) -> Iterator[Fault]:
        if "spec" in node.mapping:
            for name in ("kind", "metadata"):
                if name not in node.mapping:
                    remedy = f"write kind: {kind}" if name == "kind" else "give it a name"
                    yield Fault(node.mark, "required", under(path, name), f"{under(path, name)} is missing: {remedy}")

    return mapping(fields, exactly_one(reference, "spec"), whole)


METRIC = mapping(
    {
        "metricSource": required(
            mapping(
                {
                    "metricSourceRef": optional(NAME),
                    "type": optional(text()),
                    "spec": required(filled, "describe what is measured"),
                }
            )
        )
    }
)


def ratio_parts(node: Node, path: str) -> Iterator[Fault]:
    """good or bad over total; or raw with its type."""
    has = node.mapping
    if "total" in has:
        yield from exactly_one("good", "bad")(node, path)
    if "raw" in has:
        yield from at_most_one("raw", "good")(node, path)
        yield from at_most_one("raw", "bad")(node, path)
        if "rawType" not in has:
            field = under(path, "rawType")
            yield Fault(node.of_key("raw"), "required", field, f"{field} is missing: write success or failure")


SLI_SPEC = mapping(
    {
        "description": optional(DESCRIPTION),
        "thresholdMetric": optional(METRIC),
        "ratioMetric": optional(
            mapping(
                {
                    "counter": optional(boolean),
                    "good": optional(METRIC),
                    "bad": optional(METRIC),
                    "total": optional(METRIC),
                    "rawType": optional(one_of("success", "failure")),
                    "raw": optional(METRIC),
                },
                exactly_one("total", "raw"),
                ratio_parts,
            )
        ),
    },
    exactly_one("thresholdMetric", "ratioMetric"),
)
INDICATOR = mapping(
    {
        "apiVersion": optional(one_of(API_VERSION)),
        "kind": optional(one_of("SLI")),
        "metadata": required(METADATA),
        "spec": required(SLI_SPEC),
    }
)
CONDITION_SPEC = mapping(
    {
        "description": optional(DESCRIPTION),
        "severity": required(text(), "write page or ticket"),
        "condition": required(
            mapping(
                {
                    "kind": required(one_of("burnrate"), "write kind: burnrate"),
                    "op": required(one_of(*OPERATORS), "write op: gt"),
                    "threshold": required(number(), "give the burn rate, such as 14.4"),
                    "lookbackWindow": required(duration, "give the window, such as 1h"),
                    "alertAfter": optional(either(one_of("0m"), duration)),
                }
            )
        ),
    }
)
TARGET_SPEC = mapping(
    {"description": optional(DESCRIPTION), "target": required(text(), "write pagerduty, slack or another")}
)
POLICY_SPEC = mapping(
    {
        "description": optional(DESCRIPTION),
        "alertWhenNoData": optional(boolean),
        "alertWhenBreaching": optional(boolean),
        "alertWhenResolved": optional(boolean),
        "conditions": required(
            each(
                inline("AlertCondition", CONDITION_SPEC, "conditionRef"),
                1,
                1,
                "a policy has exactly one condition; write a policy for each, or use the annotation for several windows",
            ),
            "give its one condition",
        ),
        "notificationTargets": required(
            each(inline("AlertNotificationTarget", TARGET_SPEC, "targetRef"), 1), "name who is notified"
        ),
    }
)


def start_time(node: Node, path: str) -> Iterator[Fault]:
    try:
        datetime.strptime(node.text, START_TIME)
    except ValueError:
        yield Fault(
            node.mark, "time", path, f"{path}={node.plain!r} is not a time: write 2026-01-01 00:00:00, without a zone"
        )


def time_zone(node: Node, path: str) -> Iterator[Fault]:
    try:
        zone(node.text)
    except ValueError:
        yield Fault(
            node.mark,
            "time-zone",
            path,
            f"{path}={node.plain!r} is not a time zone: use an IANA name, such as Europe/Berlin",
        )


def rolling_or_calendar(node: Node, path: str) -> Iterator[Fault]:
    rolling, calendar = node.at("isRolling"), node.mapping.get("calendar")
    if rolling is not None and rolling.value is True:
        if calendar is not None:
            message = f"{path} is rolling and has a calendar: leave calendar out, or set isRolling to false"
            yield Fault(node.of_key("calendar"), "one-of-fields", under(path, "calendar"), message)
    elif calendar is None:
        message = f"{under(path, 'calendar')} is missing: set isRolling to true, or give startTime and timeZone"
        yield Fault(node.of_key("isRolling"), "required", under(path, "calendar"), message)


TIME_WINDOW = mapping(
    {
        "duration": required(duration, "write 30d"),
        "isRolling": optional(boolean),
        "calendar": optional(
            mapping(
                {
                    "startTime": required(start_time, "write 2026-01-01 00:00:00"),
                    "timeZone": required(time_zone, "write UTC, or an IANA name"),
                }
            )
        ),
    },
    rolling_or_calendar,
)
SHARE = "write a share such as 0.999 for 99.9 %; 1 leaves no budget to burn"
PERCENT = "write a percentage such as 99.9; 100 leaves no budget to burn"
OBJECTIVE = mapping(
    {
        "displayName": optional(text()),
        "op": optional(one_of(*OPERATORS)),
        "value": optional(number()),
        "target": optional(number(least=0, below=1, remedy=SHARE)),
        "targetPercent": optional(number(least=0, below=100, remedy=PERCENT)),
        "timeSliceTarget": optional(number(above=0, most=1, remedy="write a share such as 0.95")),
        "timeSliceWindow": optional(either(number(above=0), duration)),
        "indicator": optional(INDICATOR),
        "indicatorRef": optional(NAME),
        "compositeWeight": optional(number(above=0)),
    },
    exactly_one("target", "targetPercent"),
    at_most_one("indicator", "indicatorRef"),
)


def is_composite(spec: Node) -> bool:
    objectives = spec.at("objectives")
    return any(
        "indicator" in objective.mapping or "indicatorRef" in objective.mapping
        for objective in (objectives.items if objectives else ())
    )


def indicators(spec: Node, path: str) -> Iterator[Fault]:
    """One for the SLO, or one for each objective of a composite."""
    own = [name for name in ("indicator", "indicatorRef") if name in spec.mapping]
    if not is_composite(spec):
        yield from exactly_one("indicator", "indicatorRef")(spec, path)
        return
    if own:
        message = f"{under(path, own[0])} is given beside indicators of its objectives: keep one or the others"
        yield Fault(spec.of_key(own[0]), "one-of-fields", under(path, own[0]), message)
    objectives = spec.at("objectives")
    for number_, objective in enumerate(objectives.items if objectives else ()):
        yield from exactly_one("indicator", "indicatorRef")(objective, f"{path}.objectives[{number_}]")


def slices(spec: Node, path: str) -> Iterator[Fault]:
    method, objectives = spec.at("budgetingMethod"), spec.at("objectives")
    wanted = {"Timeslices": ("timeSliceTarget", "timeSliceWindow"), "RatioTimeslices": ("timeSliceWindow",)}
    for number_, objective in enumerate(objectives.items if objectives else ()):
        for name in wanted.get(method.text if method else "", ()):
            if objective.mapping and name not in objective.mapping:
                field = f"{path}.objectives[{number_}].{name}"
                remedy = "write a share such as 0.95" if name == "timeSliceTarget" else "write 1m"
                yield Fault(
                    objective.mark,
                    "required",
                    field,
                    f"{field} is missing: {method.text if method else ''} needs it; {remedy}",
                )


def threshold(spec: Node, path: str) -> Iterator[Fault]:
    if spec.at("indicator", "spec", "thresholdMetric") is not None:
        yield from threshold_objectives(spec, path)


def threshold_objectives(spec: Node, path: str) -> Iterator[Fault]:
    """A thresholdMetric needs one objective with an operator and a value."""
    objectives = spec.at("objectives")
    entries = objectives.items if objectives else ()
    for number_, objective in enumerate(entries):
        for name in ("op", "value"):
            if objective.mapping and name not in objective.mapping:
                field = f"{path}.objectives[{number_}].{name}"
                yield Fault(objective.mark, "required", field, f"{field} is missing: a thresholdMetric needs it")
    if len(entries) > 1:
        message = f"{path}.objectives has {len(entries)} entries: a thresholdMetric has exactly one"
        yield Fault(entries[1].mark, "count", f"{path}.objectives", message)


SLO_SPEC = mapping(
    {
        "description": optional(DESCRIPTION),
        "service": required(text(), "name the service it belongs to"),
        "indicator": optional(INDICATOR),
        "indicatorRef": optional(NAME),
        "timeWindow": optional(each(TIME_WINDOW, 1, 1, "give exactly one")),
        "budgetingMethod": required(one_of(*BUDGETING), "write Occurrences"),
        "objectives": required(each(OBJECTIVE, 1), "give at least one target"),
        "alertPolicies": optional(each(inline("AlertPolicy", POLICY_SPEC, "alertPolicyRef"))),
    },
    indicators,
    slices,
    threshold,
)
SPECS: dict[str, Check] = {
    "DataSource": mapping(
        {
            "description": optional(DESCRIPTION),
            "type": required(text(), "write its type, such as Prometheus"),
            "connectionDetails": required(anything, "describe how to reach it"),
        }
    ),
    "SLO": SLO_SPEC,
    "SLI": SLI_SPEC,
    "AlertPolicy": POLICY_SPEC,
    "AlertCondition": CONDITION_SPEC,
    "AlertNotificationTarget": TARGET_SPEC,
    "Service": mapping({"description": optional(DESCRIPTION)}),
}
KINDS = tuple(SPECS)


def whole(spec: Check, spec_required: bool) -> Check:
    return mapping(
        {
            "apiVersion": required(one_of(API_VERSION), f"write {API_VERSION}"),
            "kind": required(anything),
            "metadata": required(METADATA, "give it a name"),
            "spec": Field(spec, spec_required, "describe it"),
        }
    )


OBJECTS = {kind: whole(spec, kind != "Service") for kind, spec in SPECS.items()}
UNKNOWN = mapping(
    {
        "apiVersion": required(one_of(API_VERSION), f"write {API_VERSION}"),
        "kind": required(one_of(*KINDS), f"use one of {', '.join(KINDS)}"),
    }
)


def validate(document: Document) -> list[Problem]:
    """What the specification refuses, in the order of lines."""
    check = OBJECTS.get(document.kind)
    if check is None:
        envelope = Node(
            {name: document.node.mapping[name] for name in ("apiVersion", "kind") if name in document.node.mapping},
            document.node.mark,
            document.node.keys,
        )
        faults = UNKNOWN(envelope if document.node.mapping else document.node, "")
    else:
        faults = check(document.node, "")
    return sorted(
        {Problem(document.source, mark, "error", rule, path, message) for mark, rule, path, message in faults}
    )
