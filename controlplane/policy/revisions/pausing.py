"""Makes, approves and ends pauses and overrides. All have an end; their records stay.

Whoever calls asks for the right, or gives a `guard` that does.
"""

from datetime import datetime
from typing import Any, TypeVar

import structlog
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from controlplane.accounts.core.rule import EVERY_TEAM
from controlplane.accounts.rights import Guard, unguarded
from controlplane.core.documents.lifecycle import Facts, State, why_not
from controlplane.core.formatting import shortened
from controlplane.fleet import changes
from controlplane.fleet.files import approval
from controlplane.policy.models import Override, Pause, PolicyRevision
from controlplane.policy.revisions import names
from controlplane.policy.revisions.read import try_policy_of

log = structlog.get_logger(__name__)
Kept = TypeVar("Kept", Pause, Override)


def pause(
    *,
    scope: str,
    target: str = "",
    ends_at: datetime,
    reason: str,
    who: str,
    starts_at: datetime | None = None,
    guard: Guard = unguarded,
) -> Pause:
    """From now on unless `starts_at` is given. Raises ValidationError, by field."""
    return keep(
        Pause(scope=scope, target=target, ends_at=ends_at, reason=reason, starts_at=starts_at or timezone.now()),
        who,
        guard,
    )


def override(
    *,
    ends_at: datetime,
    reason: str,
    who: str,
    starts_at: datetime | None = None,
    guard: Guard = unguarded,
    at_once: bool = False,
    **what: Any,
) -> Override:
    """`what`: pool and replicas, or model, tier and step. `at_once` as in `keep`. Raises ValidationError, by field."""
    row = Override(ends_at=ends_at, reason=reason, starts_at=starts_at or timezone.now(), **what)
    return keep(row, who, guard, at_once=at_once)


@transaction.atomic
def keep(row: Kept, who: str, guard: Guard = unguarded, *, at_once: bool = False) -> Kept:
    """Save a new one under its author's name. An override waits where a team whose it is wants that, unless it is to count `at_once`.
    Raises ValidationError, by field.
    """
    row.author = who[:150]
    row.reason = row.reason.strip()
    row.full_clean()
    guard(row)
    if isinstance(row, Override) and not at_once:
        row.waits = bool(approval.wanting([row.owned()], "overrides_need_approval"))
    row.save()
    if not row.waits:
        _say(row, "made", f"by {who}")
    log.info(f"{row._meta.model_name}.made", number=row.pk, target=str(row), ends_at=row.ends_at.isoformat(), by=who)
    return row


def facts_of(row: Override) -> Facts:
    """What decides whether it is approved. Nothing of it can be previewed: it may be approved as it is."""
    state: State = "retired" if row.is_over else "previewed" if row.waits else "active"
    return Facts(state, row.author, steps=() if row.is_over else ("approve", "retire"))


@transaction.atomic
def approve(override: Override, who: str) -> Override:
    """It counts from the next tick on. Raises ValidationError where it does not wait, or `who` made it."""
    row = Override.objects.select_for_update().get(pk=override.pk)
    if reason := why_not("approve", facts_of(row), who):
        raise ValidationError({"state": reason})
    row.waits, row.approved_by = False, who[:150]
    row.save(update_fields=["waits", "approved_by"])
    log.info("override.approved", number=row.pk, target=str(row), by=who)
    _say(row, "approved", f"by {row.author}, approved by {who}")
    return row


@transaction.atomic
def end(row: Pause | Override, who: str, guard: Guard = unguarded) -> bool:
    """End it now, or before it begins. False where it was over already. `guard` is asked of what counts: what waits is rejected, or
    withdrawn.
    """
    now = timezone.now()
    open_ones = type(row)._default_manager.select_for_update().filter(pk=row.pk, ended_at__isnull=True, ends_at__gt=now)
    if open_one := open_ones.first():
        if not open_one.waits:
            guard(open_one)
        open_one.ended_at, open_one.ended_by = now, who[:150]
        open_one.save(update_fields=["ended_at", "ended_by"])
        log.info(f"{row._meta.model_name}.ended", number=row.pk, target=str(row), by=who)
        if not open_one.waits:
            _say(open_one, "ended", f"ended by {who}")
    row.refresh_from_db()
    return open_one is not None


def in_force(of: type[Kept] | QuerySet[Kept], *, over: bool = False) -> QuerySet[Kept]:
    """Those of a table, or of some rows, in force or to come, the newest first; with `over` the past ones too."""
    rows = (of if isinstance(of, QuerySet) else of._default_manager.all()).order_by("-pk")
    return rows if over else rows.filter(ended_at__isnull=True, ends_at__gt=timezone.now())


def _say(row: Pause | Override, step: str, what: str) -> None:
    """Have it recorded as a change, which charts, incidents and destinations have: approvers see so what did not wait for them."""
    kind, teams = str(row._meta.model_name), row.owned().teams - {EVERY_TEAM}
    named = str(row) if isinstance(row, Pause) else f"override of {row}"
    summary = shortened(f"{named}, {what}: {row.reason}", 1_000)
    team = next(iter(teams)) if len(teams) == 1 else ""
    changes.say(f"{kind}/{row.pk}/{step}", summary, "policies", timezone.now(), team, _scope(row))


def _scope(row: Pause | Override) -> dict[str, str]:
    """The requests that it may touch, by dimension."""
    if isinstance(row, Override):
        ladder = {"model": row.model, **({"tier": row.tier} if row.tier else {})}
        return names.scope_of_pool(row.pool) if row.pool else ladder
    if row.scope == Pause.Scope.POOL:
        return names.scope_of_pool(row.target)
    newest = PolicyRevision.objects.filter(name=row.target, state=PolicyRevision.State.ACTIVE).first()
    policy = try_policy_of(newest) if newest and row.scope == Pause.Scope.POLICY else None
    if policy is not None:
        return names.scope(policy)
    return {"model": row.target} if row.scope == Pause.Scope.MODEL else {}
