"""What to correct in OpenSLO documents before they are applied. Pure.

Errors are what cannot be applied; warnings are what probably is not meant. `RULES` lists the rules by name.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from controlplane.core.formatting import TEXT
from controlplane.slo.core import words
from controlplane.slo.core.burn import coarse_windows, silent_windows
from controlplane.slo.core.objective import Objective, Timeslices
from controlplane.slo.core.sli import Latency
from controlplane.slo.openslo.core import durations, weir
from controlplane.slo.openslo.core.imported import objective_of
from controlplane.slo.openslo.core.imported_windows import conditions, period_s, windows_of
from controlplane.slo.openslo.core.kinds import validate
from controlplane.slo.openslo.core.located import Context, ImportRefusedError
from controlplane.slo.openslo.core.node import Node, walk
from controlplane.slo.openslo.core.problem import Mark, Problem, Severity
from controlplane.slo.openslo.core.reading import Document, read
from controlplane.slo.openslo.core.references import duplicates, index, unknown
from controlplane.slo.openslo.core.schema import Fault

RULES = {
    "yaml": "the text is no YAML",
    "size": "a file is larger than is read",
    "duplicate-key": "a field is given twice",
    "unknown-field": "OpenSLO has no such field",
    "required": "a field is missing or empty",
    "type": "text where a number belongs, and the like",
    "one-of": "not one of the values there are",
    "one-of-fields": "none or several of fields of which there must be one",
    "count": "too many entries, or too few; a policy has one condition",
    "range": "a number out of bounds; a target of 1 leaves no budget",
    "length": "text that is too long",
    "pattern": "no name",
    "key": "a label's or annotation's name that is not allowed",
    "duration": "no duration",
    "time": "no wall time",
    "time-zone": "no IANA time zone",
    "calendar": "hours and minutes have no calendar",
    "duplicate": "two objects of one kind and name",
    "unknown-reference": "refers to nothing that is known",
    "operator": "compares the wrong way round",
    "scope": "good and total are of different requests",
    "raw": "Weir has no precomputed ratios",
    "annotation": "an annotation of Weir's that cannot be read",
    "objective": "the objective contradicts itself",
    "window": "an alert looks back longer than the objective's period",
    "window-silent": "an alert that not even a total outage sets off",
    "window-slice": "an alert window that is shorter than a slice",
    "not-evaluated": "kept and exported, and not evaluated",
    "owner": "nobody owns it",
    "runbook": "a page would not say what to do",
    "condition": "an alert policy that cannot be followed",
    "windows-twice": "alert policies beside the annotation, which counts",
    "windows-assumed": "no windows given",
    "period-assumed": "no time window given",
    "month": "a rolling month has no fixed length",
    "unit": "a number that looks as if meant in another unit",
    "target": "a target that looks as if meant as a percentage",
    "secret": "a credential in a file",
}
SECRET = re.compile(r"(?i)(password|passwd|secret|token|api[-_]?key|app[-_]?key|access[-_]?key|private[-_]?key)")


class Linted(NamedTuple):
    """`objectives` are those of SLOs that Weir evaluates, by name; `kept` says why others are not. Problems are in order of lines."""

    documents: list[Document]
    problems: list[Problem]
    objectives: dict[str, Objective]
    kept: dict[str, str]

    @property
    def errors(self) -> list[Problem]:
        return [problem for problem in self.problems if problem.severity == "error"]


def lint(texts: Mapping[str, str], known: Iterable[Document] = ()) -> Linted:
    """`texts` by file name. `known` are documents that may be referred to, and are not judged."""
    documents: list[Document] = []
    problems: list[Problem] = []
    for source, text in texts.items():
        parsed, faults = read(text, source)
        documents += parsed
        problems += faults
    valid = []
    for document in documents:
        faults = validate(document)
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
        ("runbook", weir.RUNBOOK, objective.runbook, "the URL of what to do when it burns"),
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
            message = f"spec.objectives[0].value is {ms:g} ms: is it meant in seconds? Then write unit: s"
            yield Fault(value.mark, "unit", "spec.objectives[0].value", message)
        elif ms > 3_600_000:
            message = f"spec.objectives[0].value is {ms / 3_600_000:g} hours: is it meant in ms? Then write unit: ms"
            yield Fault(value.mark, "unit", "spec.objectives[0].value", message)
    if percent is not None and objective.target < 0.01:
        message = f"spec.objectives[0].targetPercent is {objective.target:.4%}: a share is written in target, 99.9 % as 99.9 here"
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
                f"{path}: an alert looks back {weir.length(window.long_s)}, longer than the period of {weir.length(length)}: "
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
        message = f"{where.path} stands beside the annotation {weir.WINDOWS}, which alone counts: remove one of them"
        yield Fault(where.node.mark, "windows-twice", where.path, message)
    elif note is None:
        faults = windows_of(document, context, objective.period)[1]
        yield from faults
        if len(faults) == len(placed):
            message = f"metadata.annotations.{weir.WINDOWS} is missing, and no alert policy is followed: the SRE workbook's are assumed"
            yield Fault(
                document.node.of_key("metadata"), "windows-assumed", f"metadata.annotations.{weir.WINDOWS}", message
            )


def _place(document: Document, note: Node | None, duration: Node | None) -> tuple[Mark, str]:
    if note is not None:
        return note.mark, f"metadata.annotations.{weir.WINDOWS}"
    if duration is not None:
        return duration.mark, "spec.timeWindow[0].duration"
    return document.node.mark, "spec"


def by_file(problems: Sequence[Problem]) -> dict[str, list[Problem]]:
    files: dict[str, list[Problem]] = {}
    for problem in problems:
        files.setdefault(problem.source, []).append(problem)
    return files
