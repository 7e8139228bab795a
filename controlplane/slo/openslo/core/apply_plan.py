"""Plans what applying documents changes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from controlplane.slo.core.document import document
from controlplane.slo.core.objective import Objective
from controlplane.slo.openslo.core.lint import Linted
from controlplane.slo.openslo.core.reading import Document

Action = Literal["create", "change", "unchanged", "prune", "conflict"]
Key = tuple[str, str]  # kind, name


class Change(NamedTuple):
    """A field of an objective, such as `indicator.threshold_ms`; None: the field is absent."""

    field: str
    before: Any
    after: Any


class StoredDocument(NamedTuple):
    label: str
    source: str
    text: str
    slug: str


@dataclass(frozen=True, slots=True)
class Step:
    action: Action
    kind: str
    name: str
    slug: str  # of the objective; empty where there is none
    source: str
    changes: tuple[Change, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class StoredState:
    """What is stored: objectives by slug, and documents."""

    objectives: Mapping[str, Objective] = field(default_factory=dict)
    documents: Mapping[Key, StoredDocument] = field(default_factory=dict)


def plan_steps(
    linted: Linted, state: StoredState, label: str, *, prune: bool = False, adopt: bool = False
) -> list[Step]:
    """A step for each document, then a step for each document to prune: of the same label, and not in the files.

    An empty `label` imports once: documents of other labels are conflicts.
    """
    wanted = {(document.kind, document.name) for document in linted.documents}
    steps = [_step(document, linted, state, label, adopt) for document in linted.documents]
    if prune and label:
        for (kind, name), stored in sorted(state.documents.items()):
            if stored.label == label and (kind, name) not in wanted:
                steps.append(Step("prune", kind, name, stored.slug, stored.source))
    return steps


def _step(wanted: Document, linted: Linted, state: StoredState, label: str, adopt: bool) -> Step:
    kind, name = wanted.kind, wanted.name
    objective = linted.objectives.get(name) if kind == "SLO" else None
    slug = objective.slug if objective else ""
    note = linted.kept.get(name, "") if kind == "SLO" else ""
    stored = state.documents.get((kind, name))
    existing = state.objectives.get(slug) if slug else None
    if why := _conflict(stored, existing, label, adopt):
        return Step("conflict", kind, name, slug, wanted.source, note=why)
    changes = tuple(differences(existing, objective)) if objective else ()
    if stored is not None and stored.slug != slug:
        changes += (Change("objective", stored.slug or None, slug or None),)
    if stored is not None and stored.label != label:
        changes += (Change("owner label", stored.label, label),)
    if stored is None and existing is None:
        return Step("create", kind, name, slug, wanted.source, changes, note)
    if stored is None:
        note = "made by hand until now"
    elif not changes and stored.text != wanted.text:
        changes = (Change("text", None, None),)
    elif slug and existing is None:
        note = "its objective had been deleted"
    if stored is not None and stored.source != wanted.source:
        changes += (Change("source", stored.source, wanted.source),)
    action: Action = "change" if changes or stored is None else "unchanged"
    return Step(action, kind, name, slug, wanted.source, changes, note)


def _conflict(stored: StoredDocument | None, existing: Objective | None, label: str, adopt: bool) -> str:
    if adopt:
        return ""
    if stored is not None and stored.label not in ("", label):
        return f"belongs to the owner label {stored.label!r} ({stored.source}): rename it, apply it there, or adopt it"
    by_hand = (stored is None and existing is not None) or (stored is not None and not stored.label)
    if label and by_hand:
        return "was made by hand: rename it, delete the one there is, or adopt it"
    return ""


def differences(before: Objective | None, after: Objective | None) -> Iterator[Change]:
    """The fields that differ, by their names in the API."""
    old = flat(document(before)) if before else {}
    new = flat(document(after)) if after else {}
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name):
            yield Change(name, old.get(name), new.get(name))


def flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested fields by dotted names; lists as they are."""
    fields: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping) and value:
            fields.update(flat(value, f"{prefix}{name}."))
        elif value not in ({}, [], "", None):
            fields[f"{prefix}{name}"] = value
    return fields


def summary(steps: Sequence[Step]) -> dict[Action, int]:
    """How many of each action there are."""
    order: tuple[Action, ...] = ("create", "change", "unchanged", "prune", "conflict")
    return {action: count for action in order if (count := sum(step.action == action for step in steps))}
