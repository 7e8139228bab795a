"""Applies OpenSLO documents to the database: all or none. Applying the same again changes nothing."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from controlplane.accounts.rights import Guard, unguarded
from controlplane.core.documents.plan import Applied, PlanStep
from controlplane.core.documents.problem import Problem, shown
from controlplane.core.documents.reading import Document, read
from controlplane.core.formatting import shortened
from controlplane.fleet.files.revisions import Reason, because
from controlplane.slo.core.objective import Objective
from controlplane.slo.models import StoredObjective
from controlplane.slo.openslo.core import weir
from controlplane.slo.openslo.core.apply_plan import StoredDocument, StoredState, plan_apply
from controlplane.slo.openslo.core.lint import Linted, lint
from controlplane.slo.openslo.models import AppliedDocument
from controlplane.slo.save import save_objective

MANAGED_BY = weir.PREFIX + "managed-by"
SOURCE = weir.PREFIX + "source"


def apply(
    texts: Mapping[str, str],
    *,
    label: str,
    who: str,
    prune: bool = False,
    adopt: bool = False,
    dry_run: bool = False,
    guard: Guard = unguarded,
) -> Applied[str]:
    """Apply files by name. `label` marks what they own; empty imports once, to be edited by hand afterwards.

    A dry run does everything and rolls back, so that it finds the same errors. `guard` is asked of each objective, as it was and will be.
    """
    linted = lint(texts, known_documents())
    steps = [] if linted.errors else plan_apply(linted, state(), label, prune=prune, adopt=adopt)
    applied = Applied(len(linted.documents), steps, linted.problems, False)
    if not applied.possible:
        return applied
    with transaction.atomic(), because(Reason(label)):
        refusals = _carry_out(linted, steps, label, who, guard)
        done = not dry_run and not refusals
        transaction.set_rollback(not done)
    return replace(applied, problems=sorted({*linted.problems, *refusals}), done=done)


def known_documents() -> list[Document]:
    return [document for row in AppliedDocument.objects.all() for document in read(row.text, row.source)[0]]


def state() -> StoredState:
    objectives, labels = dict[str, Objective](), dict[str, str]()
    for row in StoredObjective.objects.select_related("owner"):
        objectives[row.slug], labels[row.slug] = row.to_objective(), row.annotations.get(MANAGED_BY, "")
    documents = {
        (row.kind, row.name): StoredDocument(row.label, row.source, row.text, row.slug)
        for row in AppliedDocument.objects.all()
    }
    return StoredState(objectives, documents, labels)


def _carry_out(linted: Linted, steps: Iterable[PlanStep[str]], label: str, who: str, guard: Guard) -> list[Problem]:
    documents = {(document.kind, document.name): document for document in linted.documents}
    refusals = []
    for step in steps:
        if step.action == "prune":
            AppliedDocument.objects.filter(kind=step.kind, name=step.name, label=label).delete()
            _remove(step.key, guard)
        elif step.action in ("create", "change"):
            document = documents[step.kind, step.name]
            try:
                _save(document, linted, step, label, who, guard)
            except ValidationError as error:
                refusals += _refused(document, error)
    return refusals


def _remove(slug: str, guard: Guard) -> None:
    for row in StoredObjective.objects.filter(slug=slug) if slug else ():
        guard(row)
        row.delete()


def _save(document: Document, linted: Linted, step: PlanStep[str], label: str, who: str, guard: Guard) -> None:
    before = AppliedDocument.objects.filter(kind=document.kind, name=document.name).first()
    if before is not None and before.slug not in ("", step.key):
        _remove(before.slug, guard)  # the document no longer describes it
    if step.key:
        node = document.node.at("metadata", "annotations")
        given = node.mapping if node else {}
        annotations = {name: value.text for name, value in given.items() if name not in weir.MEANT}
        mark = {MANAGED_BY: label, SOURCE: document.source} if label else {}
        save_objective(linted.objectives[document.name], who=who, annotations={**annotations, **mark}, guard=guard)
    AppliedDocument.objects.update_or_create(
        kind=document.kind,
        name=document.name,
        defaults={
            "label": label,
            "source": document.source[:500],
            "text": document.text,
            "slug": step.key,
            "not_evaluated": shortened(linted.kept.get(document.name, ""), 500) if document.kind == "SLO" else "",
            "who": who[:150],
        },
    )


FIELDS: dict[str, tuple[str | int, ...]] = {
    "owner": ("metadata", "annotations", weir.OWNER),
    "runbook": ("metadata", "annotations", weir.RUNBOOK),
    "runbook_text": ("metadata", "annotations", weir.RUNBOOK_TEXT),
    "slug": ("metadata", "name"),
    "name": ("metadata", "displayName"),
    "period_s": ("spec", "timeWindow", 0, "duration"),
    "calendar_count": ("spec", "timeWindow", 0, "duration"),
    "slice_s": ("spec", "objectives", 0, "timeSliceWindow"),
    "slice_target": ("spec", "objectives", 0, "timeSliceTarget"),
    "target": ("spec", "objectives", 0, "target"),
    "threshold_ms": ("spec", "objectives", 0, "value"),
    "windows": ("metadata", "annotations", weir.WINDOWS),
}
"""The part of a document by the model's field."""


def _refused(document: Document, error: ValidationError) -> list[Problem]:
    by_field: dict[str, list[Any]] = error.error_dict if hasattr(error, "error_dict") else {"": error.error_list}
    problems = []
    for field, errors in by_field.items():
        node = document.node.at(*FIELDS.get(field, ("metadata", "name"))) or document.node
        path = ".".join(str(part) for part in FIELDS.get(field, ()))
        words = f"{path}={shown(node.plain)}: " if path else ""
        for detail in errors:
            message = words + " ".join(detail.messages)
            problems.append(Problem(document.source, node.mark, "error", "objective", path, message))
    return problems
