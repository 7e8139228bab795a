"""Formats problems and plans for terminals, programs and GitHub."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from controlplane.core.documents.plan import NO_CHANGE, Action, FieldChange, PlanStep
from controlplane.core.documents.problem import Problem, shown

WORDS: Mapping[Action, tuple[str, str]] = {
    "create": ("+", "created"),
    "change": ("~", "changed"),
    "continue": ("~", "brought on"),
    "waits": ("?", "waiting for approval"),
    "unchanged": ("=", "unchanged"),
    "prune": ("-", "pruned"),
    "retire": ("-", "retired"),
    "propose": ("?", "proposed to be retired"),
    "conflict": ("!", "in conflict"),
}
"""The sign of a step, and the word that counts are followed by, in the order of sentences."""


def problem_json(problem: Problem) -> dict[str, Any]:
    return {
        "source": problem.source,
        "line": problem.mark.line,
        "column": problem.mark.column,
        "severity": problem.severity,
        "rule": problem.rule,
        "path": problem.path,
        "message": problem.message,
    }


def github_command(problem: Problem) -> str:
    """A GitHub workflow command, which GitHub shows beside the line."""
    place = f"file={_property(problem.source)},line={problem.mark.line},col={problem.mark.column}"
    return f"::{problem.severity} {place},title={_property(problem.rule)}::{_data(problem.message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def count_problems(problems: Sequence[Problem]) -> str:
    """`1 error, no warnings`"""
    errors = sum(problem.severity == "error" for problem in problems)
    return f"{_number(errors, 'error')}, {_number(len(problems) - errors, 'warning')}"


def _number(count: int, noun: str) -> str:
    return f"{count or 'no'} {noun}{'' if count == 1 else 's'}"


def plan_lines(steps: Iterable[PlanStep[Any]]) -> Iterator[str]:
    """A line for each step, its changes below it."""
    for step in steps:
        note = f" ({step.note})" if step.note else ""
        yield f"{WORDS[step.action][0]} {step.kind} {step.name}{note}"
        if step.action == "change":
            yield from (f"    {change_text(change)}" for change in step.changes)


def change_text(change: FieldChange) -> str:
    if change.before is None and change.after is None:
        return f"{change.field}: its comments or parts that are not evaluated"
    return f"{change.field}: {value_text(change.before)} → {value_text(change.after)}"


def value_text(value: Any) -> str:
    return "nothing" if value is None else str(value) if isinstance(value, list) else shown(value)


def summarise(steps: Iterable[PlanStep[Any]], done: bool) -> str:
    """`Nothing changed: 3 unchanged.`, `1 created, 2 changed.`, or `Would be: 1 created.`"""
    counts = Counter(step.action for step in steps)
    parts = ", ".join(f"{counts[action]} {word}" for action, (_, word) in WORDS.items() if action in counts)
    if set(counts) <= NO_CHANGE:
        return f"Nothing {'changed' if done else 'to change'}: {parts or 'no documents'}."
    return f"{'' if done else 'Would be: '}{parts}."
