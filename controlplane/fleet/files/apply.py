"""Makes the fleet equal to files, all or none. Applying the same again changes nothing."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from django.conf import settings
from django.db import transaction

from controlplane.accounts.rights import Guard, unguarded
from controlplane.core.documents.plan import (
    Applied,
    FieldChange,
    PlanStep,
    changed_fields,
    conflict_with,
    is_managed,
    names_to_prune,
)
from controlplane.fleet.core import forms
from controlplane.fleet.core.forms import Values
from controlplane.fleet.core.snapshot import render
from controlplane.fleet.files import revisions
from controlplane.fleet.files.kinds import KINDS, Key, stored
from controlplane.fleet.files.reading import Wanted, check
from controlplane.fleet.files.revisions import Reason
from controlplane.fleet.files.work import FleetStep, Work, whole
from controlplane.fleet.snapshot_values import fleet_values
from inference.contract import snapshot


@dataclass(frozen=True, slots=True)
class AppliedFleet(Applied[Key]):
    """`obeyed`: what gateways obeyed before, and what they would after; None where it cannot be applied."""

    obeyed: tuple[snapshot.Snapshot, snapshot.Snapshot] | None = None


def apply(
    texts: Mapping[str, str],
    *,
    label: str | None,
    note: str = "",
    author: str = "",
    restores: int | None = None,
    prune: bool = False,
    removes: Collection[Key] = (),
    adopt: bool = False,
    dry_run: bool = False,
    guard: Guard = unguarded,
) -> AppliedFleet:
    """Apply files by name. `label` marks what they own; None leaves each document to whom it belongs. `removes` goes whoever owns it.

    A dry run does everything and rolls back, so that it finds the same errors. `guard` is asked of each row, as it was and will be.
    """
    wanted, problems = check(texts)
    planned = [] if problems else plan(wanted, label, removes, prune=prune, adopt=adopt)
    applied = AppliedFleet(len(wanted), planned, problems, False)
    if not applied.possible:
        return applied
    with transaction.atomic(), revisions.because(Reason(label, note, restores, author)):
        work, before = Work(wanted, guard), render(fleet_values(), version=1)
        planned = work.carried_out(planned)
        after = render(fleet_values(), version=1) if applied.changes_something and not work.problems else before
        if after != before:
            refused = set(_refused_by_gateways(before))
            work.problems += [whole(message) for message in _refused_by_gateways(after) if message not in refused]
        for each in wanted:
            revisions.note(each.key)
        done = not dry_run and not work.problems
        transaction.set_rollback(not done)
    obeyed = None if work.problems else (before, after)
    return replace(applied, steps=planned, problems=sorted(work.problems), done=done, obeyed=obeyed)


def _refused_by_gateways(document: snapshot.Snapshot) -> list[str]:
    """What they would leave out of it, and why."""
    try:
        faults = snapshot.check(snapshot.encode(document), settings.CONFIG.backend_link_local).faults
    except snapshot.SnapshotError as error:
        return [f"gateways would refuse all: {error}"]
    return [f"gateways would refuse {each.kind} {each.name}: {each.reason}" for each in faults]


def plan(
    wanted: Collection[Wanted],
    label: str | None,
    removes: Collection[Key] = (),
    *,
    prune: bool = False,
    adopt: bool = False,
) -> list[FleetStep]:
    """What applying these does; what refers to nothing is only seen when it is done."""
    names = {each.key for each in wanted}
    now, owners = stored(names.union(removes)), revisions.labels()
    planned = [_step(each, now.get(each.key), owners.get(each.key, ""), label, adopt=adopt) for each in wanted]
    leaving = {key for key in removes if key in now and key not in names}
    if label is not None and prune:
        for key in names_to_prune(owners, names, label):
            if why := KINDS[key[0]].why_kept(key[1]):
                planned.append(PlanStep("unchanged", *key, key, "", note=why))
            else:
                leaving.add(key)
    return planned + [_leaving(key, owners.get(key, ""), label) for key in sorted(leaving)]


def _leaving(key: Key, owner: str, label: str | None) -> FleetStep:
    if is_managed(owner) and owner != label:
        return PlanStep("conflict", *key, key, "", (), conflict_with(owner))
    return PlanStep("prune", *key, key, "")


def _step(each: Wanted, before: Values | None, owner: str, label: str | None, *, adopt: bool) -> FleetStep:
    kind, name = each.key
    source = each.document.source
    if before is None:
        return PlanStep("create", kind, name, each.key, source)
    if owner != label and not adopt and (label is not None or (is_managed(owner) and before != before | each.values)):
        return PlanStep("conflict", kind, name, each.key, source, (), conflict_with(owner))
    after = before | each.values
    if before == after:
        return PlanStep("unchanged", kind, name, each.key, source)
    return PlanStep("change", kind, name, each.key, source, _changes(kind, before, after))


def _changes(kind: str, before: Values, after: Values) -> tuple[FieldChange, ...]:
    part = KINDS[kind].part
    return changed_fields(forms.by_key(part, before), forms.by_key(part, after))
