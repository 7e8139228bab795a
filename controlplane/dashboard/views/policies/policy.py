"""One policy: its revisions, what a preview measured, and what a revision in shadow would have done otherwise."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from controlplane.dashboard.core.policy_rows import canary_rows, ladder_rows, target_rows
from controlplane.dashboard.core.preview_tables import preview_rows, preview_tables
from controlplane.dashboard.core.screen import link_query
from controlplane.dashboard.views.common import page
from controlplane.dashboard.views.policies.frame import framed, standing_context
from controlplane.fleet.files.differences import lines_between
from controlplane.policy import queries
from controlplane.policy.core.decide import subject_of
from controlplane.policy.core.spec import Policy
from controlplane.policy.models import DecisionChange, Pause, PolicyRevision
from controlplane.policy.queries import NewestDecision
from controlplane.policy.revisions import pausing, previews
from controlplane.policy.revisions.buttons import buttons_of, press
from controlplane.policy.revisions.read import try_policy_of
from controlplane.telemetry.query.core.parameters import whole_number

LOOKS = {
    "draft": ("○", "muted"), "previewed": ("○", "muted"), "shadow": ("◐", "muted"), "approved": ("●", "muted"),
    "active": ("●", "good"), "retired": ("◼", "muted"),
}  # fmt: skip
SHADOW_BACK = timedelta(days=7)
MAX_DIFFERENCES = 50
PAIRED_WITHIN = timedelta(seconds=15)
"""A shadow's change is the same as an active one's of the same pool if they are no further apart."""


@require_safe
@page
def policy(request: HttpRequest, name: str) -> HttpResponse:
    """`?revision=`: the one whose text is shown; else the newest that is not retired."""
    revisions = list(PolicyRevision.objects.filter(name=name).order_by("-number"))
    if not revisions:
        raise Http404(f"there is no policy {name!r}")
    chosen = shown(revisions, dict(request.GET.lists()))
    active = next((row for row in revisions if row.state == PolicyRevision.State.ACTIVE), None)
    standing = queries.newest_decision()
    context: dict[str, Any] = {
        **standing_context(standing),
        "name": name,
        "chosen": chosen,
        "document": try_policy_of(chosen),
        "in_force": active,
        "retirement": active.events.filter(what="retirement").first()
        if active and active.waits_for_retirement
        else None,
        "rows": [{"revision": row, "icon": LOOKS[row.state][0], "tone": LOOKS[row.state][1]} for row in revisions],
        "difference": lines_between(active.text, chosen.text) if active and active != chosen else [],
        "preview": preview_rows(chosen.preview),
        "preview_tables": preview_tables(chosen.preview),
        "job": previews.newest_job(chosen),
        "buttons": buttons_of(request, chosen),
        "steps_at": reverse("policy-step", args=[name, chosen.number, "_"])[:-1],
        "recent": list(
            DecisionChange.objects.filter(policy=name, shadow=False)
            .select_related("decision")
            .defer("decision__packed")[:12]
        ),
        "pauses": [each for each in pausing.in_force(Pause) if each.scope == "all" or each.target == name],
        "live": True,
    }
    if chosen.state == PolicyRevision.State.SHADOW:
        context["shadow"] = shadow_rows(chosen)
    if standing and standing.record and (followed := try_policy_of(active) if active else None):
        context |= part_of(standing, followed, is_stale=context["stale_s"] is not None)
    return framed(request, name, "_policy.html", context)


@require_POST
def take_step(request: HttpRequest, name: str, number: int, step: str) -> HttpResponse:
    """A button: takes a revision a step further, or rolls back."""
    revision = press(request, get_object_or_404(PolicyRevision, name=name, number=number), step)
    return HttpResponseRedirect(f"{reverse('policy', args=[name])}?{link_query([('revision', str(revision.number))])}")


def shown(revisions: Sequence[PolicyRevision], parameters: Mapping[str, Sequence[str]]) -> PolicyRevision:
    """Raises BadQuestionError for a text that is no number, Http404 for a number that there is not."""
    usual = next((row for row in revisions if row.state != PolicyRevision.State.RETIRED), revisions[0])
    number = whole_number(parameters, "revision", usual.number, 1, 2**31)
    for row in revisions:
        if row.number == number:
            return row
    raise Http404(f"there is no revision {number} of this policy")


def part_of(standing: NewestDecision, followed: Policy, *, is_stale: bool) -> dict[str, Any]:
    """How the policy's own pools and tiers stand."""
    assert standing.record is not None
    reference = followed.metadata.name
    return {
        "targets": [
            row
            for row in target_rows(standing.record, standing.at_ms, is_stale=is_stale)
            if row["target"].policy.rpartition("@")[0] == reference
        ],
        "ladders": ladder_rows(standing.record, [followed], is_stale=is_stale),
        "canaries": canary_rows(standing.record, [followed], is_stale=is_stale),
    }


def shadow_rows(revision: PolicyRevision) -> dict[str, Any]:
    """What the revision in shadow would have done beside what was done, since it went into shadow."""
    since = max(filter(None, (revision.shadow_since, timezone.now() - SHADOW_BACK)))
    instead = instead_of(revision)
    rows = list(
        DecisionChange.objects.filter(policy__in=[revision.name, *instead], at__gte=since)
        .exclude(kind__in=("hold", "alarm"))
        .select_related("decision")
        .defer("decision__packed")
        .order_by("at", "pk")
    )
    acted = [row for row in rows if not row.shadow]
    decided = [row for row in rows if row.shadow and row.revision == revision.number]
    return {
        "since": since,
        "instead": instead,
        "acted": len(acted),
        "decided": len(decided),
        "most": max((row.after for row in decided if row.after is not None), default=None),
        "most_acted": max((row.after for row in acted if row.after is not None), default=None),
        "rows": paired(acted, decided)[: -MAX_DIFFERENCES - 1 : -1],
    }


def instead_of(revision: PolicyRevision) -> list[str]:
    """The names of what is in force about the same as the revision in shadow, which it is compared with."""
    proposed = try_policy_of(revision)
    if proposed is None:
        return []
    return [
        each.metadata.name
        for each in queries.in_force()
        if type(each) is type(proposed) and subject_of(each) == subject_of(proposed)
    ]


def paired(acted: Sequence[DecisionChange], decided: Sequence[DecisionChange]) -> list[dict[str, Any]]:
    """Changes by time, each with the other side's change of the same subject at that time, if there is any."""
    rows: list[dict[str, Any]] = []
    left = list(acted)
    for change in decided:
        same = next((each for each in left if _same(each, change)), None)
        if same is not None:
            left.remove(same)
        if same is None or same.after != change.after:
            rows.append({"at": change.at, "subject": _subject(change), "shadow": change, "acted": same})
    rows += [{"at": each.at, "subject": _subject(each), "shadow": None, "acted": each} for each in left]
    return sorted(rows, key=lambda row: row["at"])


def _same(first: DecisionChange, second: DecisionChange) -> bool:
    return _subject(first) == _subject(second) and abs(first.at - second.at) <= PAIRED_WITHIN


def _subject(change: DecisionChange) -> str:
    return " ".join(filter(None, (change.about, change.tier)))
