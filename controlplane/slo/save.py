"""Saves objectives from the admin, the API and files. Each change makes a revision."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from django.core.exceptions import ValidationError
from django.db import transaction

from controlplane.accounts.rights import Guard, unguarded
from controlplane.fleet import changes
from controlplane.fleet.models import Team
from controlplane.slo.core.document import objective_to_json
from controlplane.slo.core.objective import Objective
from controlplane.slo.models import ObjectiveRevision, StoredObjective


class Saved(NamedTuple):
    row: StoredObjective
    created: bool
    changed: tuple[str, ...]  # fields that differ from the revision before; empty where nothing was written


@transaction.atomic
def save_objective(
    objective: Objective,
    *,
    who: str,
    annotations: Mapping[str, str] | None = None,
    enabled: bool | None = None,
    guard: Guard = unguarded,
) -> Saved:
    """Create or change the objective of this slug. Saving the same again changes nothing. None leaves a field as it is.
    `guard` is asked of it as it was, and as it will be.

    Raises ValidationError, whose messages name the field, the value and the remedy.
    """
    row = StoredObjective.objects.select_for_update().filter(slug=objective.slug).first()
    created = row is None
    if row is not None:
        guard(row)
    row = row or StoredObjective()
    row.take(objective)
    row.owner = team(objective.owner) if objective.owner else None
    row.annotations = row.annotations if annotations is None else dict(annotations)
    row.enabled = row.enabled if enabled is None else enabled
    row.full_clean()
    guard(row)
    return Saved(row, created, revise(row, who))


def revise(row: StoredObjective, who: str) -> tuple[str, ...]:
    """Save a valid row, with a new revision if it differs from its last one. Returns the fields that differ."""
    now = content(row)
    last = row.revisions.first() if row.pk else None
    changed = tuple(name for name, value in now.items() if last is None or last.document.get(name) != value)
    if changed:
        row.revision = (last.number if last else 0) + 1
        row.save()
        made = ObjectiveRevision.objects.create(
            objective=row, number=row.revision, who=who[:150], document=now, changed=list(changed)
        )
        if last is not None:
            words = f"objective {row.slug}, revision {made.number} by {made.who}: {', '.join(changed)}"
            owner = row.owner.name if row.owner else ""
            changes.say(f"objective/{row.pk}/{made.number}", words, "objectives", made.at, owner, row.scope)
    return changed


def content(row: StoredObjective) -> dict[str, Any]:
    """What a revision holds."""
    return {**objective_to_json(row.to_objective()), "enabled": row.enabled, "annotations": dict(row.annotations)}


def team(name: str) -> Team:
    owner = Team.objects.filter(name=name).first()
    if owner is None:
        names = ", ".join(Team.objects.values_list("name", flat=True)[:20]) or "none yet"
        raise ValidationError(
            {"owner": f"owner={name!r} is not a team: add it at /admin/fleet/team/add/, or use one of: {names}"}
        )
    return owner
