"""Lints OpenSLO documents: errors cannot be applied, warnings are probably not meant. docs/openslo.md lists the rules by name."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from controlplane.core.documents.node import Node, walk
from controlplane.core.documents.problem import Mark, Problem, Severity
from controlplane.core.documents.reading import Document, read
from controlplane.core.formatting import TEXT, relative
from controlplane.slo.core import words
from controlplane.slo.core.burn import coarse_windows, silent_windows
from controlplane.slo.core.objective import Objective, Timeslices
from controlplane.slo.core.sli import Latency
from controlplane.slo.openslo.core import durations, weir
from controlplane.slo.openslo.core.imported import objective_of
from controlplane.slo.openslo.core.imported_windows import conditions, period_s, windows_of
from controlplane.slo.openslo.core.located import Context, ImportRefusedError
from controlplane.slo.openslo.core.references import duplicates, index, unknown
from controlplane.slo.openslo.core.schema import Fault, faults_of

SECRET = re.compile(r"(?i)(password|passwd|secret|token|api[-_]?key|app[-_]?key|access[-_]?key|private[-_]?key)")


class Linted(NamedTuple):
    """`objectives`: of SLOs that Weir evaluates, by name; `kept`: why others are not evaluated. Problems are in order of lines."""

    documents: list[Document]
    problems: list[Problem]
    objectives: dict[str, Objective]
    kept: dict[str, str]

    @property
    def errors(self) -> list[Problem]:
        return [problem for problem in self.problems if problem.severity == "error"]


def lint(texts: Mapping[str, str], known: Iterable[Document] = ()) -> Linted:
    """Lint `texts` by file name. They may refer to `known` documents, which are not linted."""
    documents: list[Document] = []
    problems: list[Problem] = []
    for source, text in texts.items():
        parsed, faults = read(text, source)
        documents += parsed
        problems += faults
    valid = []
    for document in documents:
        faults = [
            Problem(document.source, fault.mark, "error", fault.rule, fault.path, fault.message)
            for fault in faults_of("document", document.node)
        ]
        problems += faults
        if not faults:
            valid.append(document)
    known = list(known)
    problems += duplicates(valid) + unknown(valid, [*known, *documents])
    context = Context({**index(known), **index(valid)})
    objectives: dict[str, Objective] = {}
    kept: dict[str, str] = {}
    for document in valid:
        problems += _of_kind(document)
        if document.kind == "SLO":
            try:
                objective = objective_of(document, context)
            except ImportRefusedError as error:
                problems.append(_refusal(error))
                kept[document.name] = str(error)
            else:
                objectives[document.name] = objective
                problems += _of_objective(document, context, objective)
    return Linted(documents, sorted(set(problems)), objectives, kept)


def _refusal(error: ImportRefusedError) -> Problem:
    severity: Severity = "warning" if error.kept else "error"
    mark, rule, path, message = error.fault
    return Problem(error.source, mark, severity, rule, path, message)


def _of_kind(document: Document) -> Iterator[Problem]:
    if document.kind == "DataSource":
        details = document.node.mapping["spec"].mapping["connectionDetails"]
        for path, node in walk(details, "spec.connectionDetails"):
            for name, child in node.mapping.items():
                if SECRET.search(name) and child.text and not child.text.startswith("$"):
                    message = f"{path}.{name} looks like a credential: keep it in a secret store, and name it here"
                    yield Problem(document.source, node.keys[name], "warning", "secret", f"{path}.{name}", message)


def _of_objective(document: Document, context: Context, objective: Objective) -> Iterator[Problem]:
    for fault in (
        *_people(document, objective),
        *_numbers(document, objective),
        *_period(document),
        *_windows(document, context, objective),
    ):
        severity: Severity = "error" if fault.rule == "window" else "warning"
        yield Problem(document.source, fault.mark, severity, fault.rule, fault.path, fault.message)


def _people(document: Document, objective: Objective) -> Iterator[Fault]:
    where = document.node.of_key("metadata")
    for rule, key, given, what in (
        ("owner", weir.OWNER, objective.owner, "the team that is paged"),
        ("runbook", weir.RUNBOOK, objective.runbook or objective.runbook_text, "the URL of what to do when it fires"),
    ):
        if not given:
            path = f"metadata.annotations.{key}"
            yield Fault(where, rule, path, f"{path} is missing: give {what}")


def _numbers(document: Document, objective: Objective) -> Iterator[Fault]:
    entry = document.node.at("spec", "objectives", 0) or document.node
    value, percent = entry.at("value"), entry.at("targetPercent")
    if isinstance(objective.indicator, Latency) and value is not None:
        ms = objective.indicator.threshold_ms
        if ms < 1:
            message = f"spec.objectives[0].value is {ms:g} ms: if seconds are meant, write unit: s"
            yield Fault(value.mark, "unit", "spec.objectives[0].value", message)
        elif ms > 3_600_000:
            message = f"spec.objectives[0].value is {ms / 3_600_000:g} hours: if ms are meant, write unit: ms"
            yield Fault(value.mark, "unit", "spec.objectives[0].value", message)
    if percent is not None and objective.target < 0.01:
        message = f"spec.objectives[0].targetPercent is {objective.target:.4%}: write 99.9 for 99.9 % here, or a share in target"
        yield Fault(percent.mark, "target", "spec.objectives[0].targetPercent", message)
    elif objective.target < 0.5:
        message = (
            f"target {objective.target:g} lets {TEXT.share(1 - objective.target)} of requests be bad: 99 % is 0.99"
        )
        yield Fault(entry.of_key("target"), "target", "spec.objectives[0].target", message)


def _period(document: Document) -> Iterator[Fault]:
    window = document.node.at("spec", "timeWindow", 0)
    if window is None:
        message = "spec.timeWindow is missing: 30 rolling days are assumed"
        yield Fault(document.node.of_key("spec"), "period-assumed", "spec.timeWindow", message)
        return
    duration = window.mapping["duration"]
    number, unit = durations.parts(duration.text)
    if "calendar" not in window.mapping and unit in "MQY":
        days = number * durations.SECONDS[unit] // durations.SECONDS["d"]
        path = "spec.timeWindow[0].duration"
        message = f"{path}={duration.plain!r} is rolling, and {durations.NAMES[unit]} differ in length: write {days}d"
        yield Fault(duration.mark, "month", path, message)


def _windows(document: Document, context: Context, objective: Objective) -> Iterator[Fault]:
    length = period_s(objective.period)
    annotations = document.node.at("metadata", "annotations")
    note = annotations.at(weir.WINDOWS) if annotations else None
    duration = document.node.at("spec", "timeWindow", 0, "duration")
    for window in objective.windows:
        if window.long_s > length:
            mark, path = _place(document, note, duration)
            message = (
                f"{path}: an alert looks back {relative(window.long_s, 'dhms')}, longer than the period of {relative(length, 'dhms')}: "
                "make the period longer or the window shorter"
            )
            yield Fault(mark, "window", path, message)
    for window in silent_windows(objective.windows, objective.target, length):
        entry = document.node.at("spec", "objectives", 0) or document.node
        path = f"metadata.annotations.{weir.WINDOWS}" if note else "spec.objectives[0]"
        mark = note.mark if note else entry.of_key("target")
        yield Fault(mark, "window-silent", path, f"{path}: {words.silent_window(window, objective.target, length)}")
    if isinstance(objective.method, Timeslices):
        target = document.node.at("spec", "objectives", 0) or document.node
        for window in coarse_windows(objective.windows, objective.method.slice_s):
            path = "spec.objectives[0].timeSliceWindow"
            message = f"{path}: {words.coarse_window(window, objective.method.slice_s)}"
            yield Fault(target.of_key("timeSliceWindow"), "window-slice", path, message)
    placed = list(conditions(document, context))
    if note is not None and placed:
        where = placed[0][0]
        message = (
            f"{where.path} is ignored, because the annotation {weir.WINDOWS} gives the windows: remove one of them"
        )
        yield Fault(where.node.mark, "windows-twice", where.path, message)
    elif note is None:
        faults = windows_of(document, context, objective.period)[1]
        yield from faults
        if len(faults) == len(placed):
            message = f"metadata.annotations.{weir.WINDOWS} is missing, and no alert policy is used: the SRE workbook's are assumed"
            yield Fault(
                document.node.of_key("metadata"), "windows-assumed", f"metadata.annotations.{weir.WINDOWS}", message
            )


def _place(document: Document, note: Node | None, duration: Node | None) -> tuple[Mark, str]:
    if note is not None:
        return note.mark, f"metadata.annotations.{weir.WINDOWS}"
    if duration is not None:
        return duration.mark, "spec.timeWindow[0].duration"
    return document.node.mark, "spec"
