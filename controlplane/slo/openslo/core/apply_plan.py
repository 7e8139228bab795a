"""Plans what applying OpenSLO documents changes."""

from collections.abc import Mapping
from typing import NamedTuple

from controlplane.core.documents.plan import (
    TEXT_ONLY,
    FieldChange,
    PlanStep,
    changed_fields,
    conflict_with,
    names_to_prune,
)
from controlplane.core.documents.reading import Document
from controlplane.slo.core.document import objective_to_json
from controlplane.slo.core.objective import Objective
from controlplane.slo.openslo.core.lint import Linted


class StoredDocument(NamedTuple):
    label: str
    source: str
    text: str
    slug: str


class StoredState(NamedTuple):
    """What is stored: objectives by slug, documents by kind and name, and the owner labels of objectives by slug: they tell whose one is
    that was approved, and is in no document yet.
    """

    objectives: Mapping[str, Objective]
    documents: Mapping[tuple[str, str], StoredDocument]
    labels: Mapping[str, str]


def plan_apply(linted: Linted, state: StoredState, label: str, *, prune: bool, adopt: bool) -> list[PlanStep[str]]:
    """A step for each document, then one for each to prune. Their keys are slugs, empty where there is no objective.

    An empty `label` imports once: documents of other labels are conflicts.
    """
    steps = [_plan_document(document, linted, state, label, adopt) for document in linted.documents]
    labels = {key: stored.label for key, stored in state.documents.items()}
    wanted = {(document.kind, document.name) for document in linted.documents}
    for kind, name in names_to_prune(labels, wanted, label) if prune else ():
        stored = state.documents[kind, name]
        steps.append(PlanStep("prune", kind, name, stored.slug, stored.source))
    return steps


def _plan_document(wanted: Document, linted: Linted, state: StoredState, label: str, adopt: bool) -> PlanStep[str]:
    kind, name = wanted.kind, wanted.name
    objective = linted.objectives.get(name) if kind == "SLO" else None
    slug = objective.slug if objective else ""
    note = linted.kept.get(name, "") if kind == "SLO" else ""
    stored = state.documents.get((kind, name))
    existing = state.objectives.get(slug) if slug else None
    owner = stored.label if stored is not None else state.labels.get(slug, "") if existing is not None else label
    if owner != label and not adopt:
        return PlanStep("conflict", kind, name, slug, wanted.source, note=conflict_with(owner))
    before = objective_to_json(existing) if existing else {}
    changes = changed_fields(before, objective_to_json(objective)) if objective else ()
    if stored is not None and stored.slug != slug:
        changes += (FieldChange("objective", stored.slug or None, slug or None),)
    if stored is not None and stored.label != label:
        changes += (FieldChange("owner label", stored.label, label),)
    if stored is None and existing is None:
        return PlanStep("create", kind, name, slug, wanted.source, changes, note)
    if stored is None:
        note = "approved, and not in a document until now" if owner else "made by hand until now"
    elif not changes and stored.text != wanted.text:
        changes = (TEXT_ONLY,)
    elif slug and existing is None:
        note = "its objective had been deleted"
    if stored is not None and stored.source != wanted.source:
        changes += (FieldChange("source", stored.source, wanted.source),)
    return PlanStep(
        "change" if changes or stored is None else "unchanged", kind, name, slug, wanted.source, changes, note
    )
