"""Formats problems and plans for terminals, programs and GitHub."""

from collections.abc import Iterable, Sequence
from typing import Any

from controlplane.slo.openslo.core.apply_plan import Change, Step, summary
from controlplane.slo.openslo.core.problem import Problem, shown

SIGNS = {"create": "+", "change": "~", "unchanged": "=", "prune": "-", "conflict": "!"}
WORDS = {
    "create": "created",
    "change": "changed",
    "unchanged": "unchanged",
    "prune": "pruned",
    "conflict": "in conflict",
}


def as_json(problem: Problem) -> dict[str, Any]:
    return {
        "source": problem.source,
        "line": problem.mark.line,
        "column": problem.mark.column,
        "severity": problem.severity,
        "rule": problem.rule,
        "path": problem.path,
        "message": problem.message,
    }


def as_github(problem: Problem) -> str:
    """A GitHub workflow command, which GitHub shows beside the line."""
    place = f"file={_property(problem.source)},line={problem.mark.line},col={problem.mark.column}"
    return f"::{problem.severity} {place},title={_property(problem.rule)}::{_data(problem.message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def counted(problems: Sequence[Problem]) -> str:
    errors = sum(problem.severity == "error" for problem in problems)
    return f"{_number(errors, 'error')}, {_number(len(problems) - errors, 'warning')}"


def _number(count: int, noun: str) -> str:
    return f"{count or 'no'} {noun}{'' if count == 1 else 's'}"


def lines(steps: Iterable[Step]) -> list[str]:
    """A plan: a line for each step, its changes below it."""
    printed = []
    for step in steps:
        note = f" ({step.note})" if step.note else ""
        printed.append(f"{SIGNS[step.action]} {step.kind} {step.name}{note}")
        if step.action == "change":
            printed += [f"    {change_text(change)}" for change in step.changes]
    return printed


def change_text(change: Change) -> str:
    if change.before is None and change.after is None:
        return f"{change.field}: its comments or parts that are not evaluated"
    return f"{change.field}: {value_text(change.before)} → {value_text(change.after)}"


def value_text(value: Any) -> str:
    return "nothing" if value is None else str(value) if isinstance(value, list) else shown(value)


def sentence(steps: Sequence[Step], done: bool) -> str:
    """`Nothing changed: 3 unchanged.`, `1 created, 2 changed.`, or `Would be: 1 created.`"""
    counts = summary(steps)
    parts = [f"{count} {WORDS[action]}" for action, count in counts.items()]
    if set(counts) <= {"unchanged"}:
        return f"Nothing {'changed' if done else 'to change'}: {', '.join(parts) or 'no documents'}."
    return f"{'' if done else 'Would be: '}{', '.join(parts)}."


def step_json(step: Step) -> dict[str, Any]:
    return {
        "action": step.action,
        "kind": step.kind,
        "name": step.name,
        "slug": step.slug or None,
        "source": step.source,
        "note": step.note,
        "changes": [change._asdict() for change in step.changes],
    }
