"""The plan of an apply: what it does with each document, and with what no document describes any more."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from controlplane.core.documents.problem import Problem

Action = Literal["create", "change", "continue", "waits", "unchanged", "prune", "retire", "propose", "conflict"]
Key = TypeVar("Key")
Name = TypeVar("Name", bound=tuple[str, ...] | str)
NO_CHANGE: Set[Action] = {"unchanged", "waits"}


class FieldChange(NamedTuple):
    """A field such as `indicator.threshold_ms`; None: it is absent."""

    field: str
    before: Any
    after: Any


TEXT_ONLY = FieldChange("text", None, None)
"""Nothing but comments, layout or parts that are not evaluated."""


@dataclass(frozen=True, slots=True)
class PlanStep(Generic[Key]):
    """What applying does with one document. `key` is what the caller finds the stored object by."""

    action: Action
    kind: str
    name: str
    key: Key
    source: str
    changes: tuple[FieldChange, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Applied(Generic[Key]):
    """The result of applying so many documents. `done` is False for a dry run, and after errors or conflicts."""

    documents: int
    steps: Sequence[PlanStep[Key]]
    problems: Sequence[Problem]
    done: bool

    @property
    def errors(self) -> list[Problem]:
        return [problem for problem in self.problems if problem.severity == "error"]

    @property
    def conflicts(self) -> list[PlanStep[Key]]:
        return [step for step in self.steps if step.action == "conflict"]

    @property
    def possible(self) -> bool:
        return not self.errors and not self.conflicts

    @property
    def changes_something(self) -> bool:
        return any(step.action not in NO_CHANGE for step in self.steps)


def names_to_prune(labels: Mapping[Name, str], wanted: Set[Name], label: str) -> list[Name]:
    """What is stored with this label and is in none of the files. Without a label nothing is owned."""
    return sorted(name for name, owner in labels.items() if label and owner == label and name not in wanted)


MANAGED = "managed by "
"""Begins the owner labels of what is changed where it comes from, and nowhere else."""


def managed_by(manager: str) -> str:
    """The owner label of what a source manages, such as `git`."""
    return f"{MANAGED}{manager}"


def is_managed(label: str) -> bool:
    return label.startswith(MANAGED)


def conflict_with(label: str) -> str:
    """Why what is stored with this owner label stays as it is, and the remedy."""
    if is_managed(label):
        return f"is {label}: change it there, or take it over with `./weir apply --adopt`"
    if label:
        return f"belongs to the owner label {label!r}: rename it, apply it there, or adopt it"
    return "was made by hand: rename it, or adopt it"


def changed_fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[FieldChange, ...]:
    """The fields that differ, by dotted names."""
    old, new = flatten(before), flatten(after)
    return tuple(
        FieldChange(name, old.get(name), new.get(name))
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name)
    )


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested fields by dotted names; lists as they are."""
    fields: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping) and value:
            fields.update(flatten(value, f"{prefix}{name}."))
        elif value not in ({}, [], "", None):
            fields[f"{prefix}{name}"] = value
    return fields
