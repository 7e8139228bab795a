"""Reads the burn windows of an SLO from its annotation or its alert policies."""

from collections.abc import Iterator
from typing import Any

from controlplane.core.documents.node import Node
from controlplane.core.documents.reading import Document
from controlplane.core.formatting import TEXT
from controlplane.slo.core.objective import Calendar, Rolling
from controlplane.slo.core.windows import MINUTE_S, WORKBOOK, BurnWindow
from controlplane.slo.openslo.core import durations, weir
from controlplane.slo.openslo.core.located import Context, Located, annotations_in
from controlplane.slo.openslo.core.schema import Fault

PAGES = ("page", "critical", "sev1", "high")


CALENDAR_UNITS = {"d": "day", "w": "week", "M": "month", "Q": "quarter", "Y": "year"}


def windows_of(
    document: Document, context: Context, period: Rolling | Calendar
) -> tuple[tuple[BurnWindow, ...], list[Fault]]:
    """Windows from the annotation, else from alert policies, else the SRE workbook's; and the policies that cannot be used.

    Raises ImportRefusedError for an annotation that cannot be read.
    """
    note = annotations_in(document).get(weir.WINDOWS)
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
    """The condition of a policy gives the long window and the rate; the short window is a twelfth, as in the SRE workbook."""
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
    """Each condition of the SLO's policies that can be found, with its place in the SLO."""
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
        return fault._replace(message=f"{where.path} has an incomplete condition: it is ignored"), None
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
                "it is never reached; lower threshold or lookbackWindow"
            )
            return fault._replace(message=message), None
    except ValueError as error:
        return fault._replace(message=f"{where.path}: {error}"), None
    page = severity is not None and severity.text.lower() in PAGES
    return fault, BurnWindow("page" if page else "ticket", long_s, max(MINUTE_S, long_s // 12), share)


def period_s(period: Rolling | Calendar) -> int:
    """The length of a period; approximate for calendars, whose months differ."""
    if isinstance(period, Rolling):
        return period.period_s
    units = {name: letter for letter, name in CALENDAR_UNITS.items()}
    letter: Any = units[period.unit]
    return period.count * durations.SECONDS[letter]
