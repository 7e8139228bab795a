"""Fleet, policies and objectives out of the same files, in one transaction: each kind goes to the room that knows it."""

import getpass
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from django.db import transaction

from controlplane.core.documents.plan import Applied
from controlplane.core.documents.reading import Document, parted
from controlplane.fleet.files.apply import apply as apply_fleet
from controlplane.fleet.files.export import export as export_fleet
from controlplane.fleet.files.kinds import KINDS
from controlplane.policy.core.spec import KINDS as POLICIES
from controlplane.policy.models import PolicyRevision
from controlplane.policy.revisions.apply import Goal
from controlplane.policy.revisions.apply import apply as apply_policies
from controlplane.slo.models import StoredObjective
from controlplane.slo.openslo.apply import apply as apply_objectives
from controlplane.slo.openslo.export import export_one
from controlplane.slo.openslo.models import AppliedDocument

FLEET, POLICY, OPENSLO = "fleet", "policies", "objectives"
OBJECTIVE = "SLO"
OTHERS = (*POLICIES, OBJECTIVE)
"""Kinds that are none of the fleet's."""


def apply(
    texts: Mapping[str, str],
    *,
    label: str,
    note: str,
    prune: bool,
    adopt: bool,
    goal: Goal,
    again: bool,
    dry_run: bool,
) -> Applied[Any]:
    """Apply files by name, all or none. The fleet is first, because policies name its pools, and objectives its teams. `goal`, `again`: of
    policies.
    """
    groups: dict[str, dict[str, str]] = {FLEET: {}, POLICY: {}, OPENSLO: {}}
    for source, text in texts.items():
        for group, part in parted(text, _group_of, FLEET).items():
            groups[group][source] = part
    common: dict[str, Any] = {"label": label, "prune": prune, "adopt": adopt}
    all_of: Applied[Any] = Applied(0, (), (), False)
    with transaction.atomic():
        for applied in _each(groups, common, note, {"goal": goal, "again": again}):
            all_of = Applied(
                all_of.documents + applied.documents,
                [*all_of.steps, *applied.steps],
                [*all_of.problems, *applied.problems],
                applied.done,
            )
            if not applied.done:
                break
        done = all_of.done and not dry_run
        transaction.set_rollback(not done)
    return replace(all_of, done=done)


def _each(
    groups: Mapping[str, Mapping[str, str]], common: dict[str, Any], note: str, of_policies: dict[str, Any]
) -> Iterator[Applied[Any]]:
    """Without a file of a kind nothing of it is applied, nor pruned: the files are of something else."""
    who = getpass.getuser()
    if groups[FLEET]:
        yield apply_fleet(groups[FLEET], note=note, **common)
    if groups[POLICY]:
        yield apply_policies(groups[POLICY], who=who, note=note, **common, **of_policies)
    if groups[OPENSLO]:
        yield apply_objectives(groups[OPENSLO], who=f"openslo ({who})", **common)


def _group_of(document: Document) -> str:
    version = document.node.at("apiVersion")
    if version is not None and version.text.startswith("openslo/"):
        return OPENSLO
    return POLICY if document.kind in POLICIES else FLEET


def export(kinds: Collection[str] = (), team: str = "") -> dict[str, str]:
    """Texts by file name: of these kinds, or of all; of this team, if one is named."""
    texts = export_fleet(kinds, team) if not kinds or set(kinds) & set(KINDS) else {}
    came = set(AppliedDocument.objects.exclude(slug="").values_list("slug", flat=True))
    revisions = PolicyRevision.objects.filter(state=PolicyRevision.State.ACTIVE).order_by("name")
    objectives = StoredObjective.objects.select_related("owner").order_by("slug")
    if team:
        revisions, objectives = revisions.filter(team=team), objectives.filter(owner__name=team)
    texts |= {f"{row.kind.lower()}-{row.name}": row.text for row in revisions if not kinds or row.kind in kinds}
    for row in objectives if not kinds or OBJECTIVE in kinds else ():
        if kinds or row.slug in came:  # what came as OpenSLO goes as OpenSLO
            texts |= {f"slo-{row.slug}": export_one(row)}
            texts.pop(f"objective-{row.slug}", None)
    if not team and (not kinds or OBJECTIVE in kinds):
        others = AppliedDocument.objects.filter(slug="")
        texts |= {f"{row.kind.lower()}-{row.name}": row.text for row in others}
    return texts
