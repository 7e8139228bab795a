"""Proposes revisions of policies, and takes them from state to state. Each step is recorded with who took it.

Whoever calls asks for the right: `action_for`.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import NamedTuple

import structlog
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from controlplane.accounts.core.actions import APPROVE_POLICIES, CHANGE_POLICIES, REJECT_POLICIES
from controlplane.accounts.core.rule import Action
from controlplane.accounts.rights import Guard, unguarded
from controlplane.core.documents import lifecycle
from controlplane.core.documents.plan import conflict_with, is_managed
from controlplane.core.documents.problem import dotted
from controlplane.core.formatting import shortened
from controlplane.fleet import changes, publish
from controlplane.fleet.models import record_step
from controlplane.policy import owning_teams
from controlplane.policy.core import checks
from controlplane.policy.core.spec import Policy, Routing
from controlplane.policy.models import PolicyRevision, RevisionEvent
from controlplane.policy.revisions import names
from controlplane.policy.revisions.core.route_rules import route_rules
from controlplane.policy.revisions.read import PolicyTextError, policy_of, read_text, try_policy_of

log = structlog.get_logger(__name__)
STATE, WHAT = PolicyRevision.State, RevisionEvent.What
BOOTSTRAP, CANARY, ROLL_BACK = "bootstrap", "canary", "roll_back"
"""The sources of revisions that come with a set-up, follow a canary, or bring an earlier text back."""


def action_for(step: str, revision: PolicyRevision) -> Action:
    """What a step asks of the rule: whoever may approve a proposal may reject it."""
    rejects = step == "keep" or (step == "retire" and revision.state in lifecycle.OPEN)
    return APPROVE_POLICIES if step == "approve" else REJECT_POLICIES if rejects else CHANGE_POLICIES


class Proposed(NamedTuple):
    revision: PolicyRevision
    created: bool  # False where the newest revision has this text already


def propose(
    text: str, *, who: str, source: str, note: str = "", label: str | None = None, guard: Guard = unguarded
) -> Proposed:
    """A draft with this text, unless the policy's newest revision has the same and is not retired.

    `label`: of the repository that the text is from; None keeps that of the revision before. `guard` is asked before anything is written.

    Raises PolicyTextError.
    """
    read = read_text(text)
    policy = read.policy
    with _one_at_a_time(), transaction.atomic():
        guard(PolicyRevision(name=policy.metadata.name, text=read.text))
        newest = _locked(policy.metadata.name).first()
        if newest is not None and newest.kind != read.kind:
            message = f"metadata.name={read.name!r} is a policy of kind {newest.kind} already: choose another name"
            raise PolicyTextError([read.problem(("metadata", "name"), message, "kind")])
        if newest is not None and label is None and is_managed(newest.label) and newest.state != STATE.RETIRED:
            message = f"policy {read.name} {conflict_with(newest.label)}"
            raise PolicyTextError([read.problem(("metadata", "name"), message, "managed")])
        if newest is not None and newest.text == read.text and newest.state != STATE.RETIRED:
            return Proposed(newest, False)
        made = PolicyRevision.objects.create(
            name=policy.metadata.name,
            kind=read.kind,
            number=newest.number + 1 if newest else 1,
            text=read.text,
            team=policy.metadata.team or owning_teams.owner(policy),
            author=who[:150],
            source=source,
            note=note.strip()[:500],
            label=(newest.label if newest else "") if label is None else label,
        )
        _record(made, WHAT.PROPOSED, who, note)
        return Proposed(made, True)


def facts_of(revision: PolicyRevision) -> lifecycle.Facts:
    """What decides which steps it may take."""
    state: lifecycle.State = revision.state  # type: ignore[assignment]
    if state == "retired":
        return lifecycle.Facts(state, revision.author, steps=())
    newer = PolicyRevision.objects.filter(name=revision.name, state=STATE.ACTIVE, number__gt=revision.number).first()
    wrong = f"{newer} is in force and newer: roll back, or propose the text again" if newer else ""
    leaves = revision.retirement_by if revision.waits_for_retirement else ""
    return lifecycle.Facts(
        state, revision.author, owning_teams.wanting(try_policy_of(revision)), wrong, retirement_by=leaves
    )


def shadow(revision: PolicyRevision, who: str, note: str = "") -> PolicyRevision:
    """Let it decide and record beside what is in force, without acting. Another revision in shadow goes back. Raises ValidationError."""
    with _one_at_a_time(), transaction.atomic():
        revision = _checked(revision, "shadow", who)
        for other in _locked(revision.name).filter(state=STATE.SHADOW):
            other.state = STATE.PREVIEWED if other.previewed_at else STATE.DRAFT
            other.save(update_fields=["state"])
            _record(other, WHAT.SHADOW_ENDED, who, f"revision {revision.number} took its place")
        revision.state, revision.shadow_since = STATE.SHADOW, timezone.now()
        revision.save(update_fields=["state", "shadow_since"])
        return _record(revision, WHAT.SHADOW, who, note)


def approve(revision: PolicyRevision, who: str, note: str = "") -> PolicyRevision:
    """The revision; or its retirement where that waits, which is carried out with it. Raises ValidationError where `who` proposed it, or
    where there is no preview.
    """
    with _one_at_a_time(), transaction.atomic():
        revision = _checked(revision, "approve", who)
        if revision.waits_for_retirement:
            _record(revision, WHAT.APPROVED, who, note)
            return _end(revision, revision.retirement_by, f"approved by {who}{_text(note)}")
        revision.state, revision.approved_by, revision.approved_at = STATE.APPROVED, who[:150], timezone.now()
        revision.save(update_fields=["state", "approved_by", "approved_at"])
        return _record(revision, WHAT.APPROVED, who, note)


def activate(revision: PolicyRevision, who: str, note: str = "", instead_of: Collection[str] = ()) -> PolicyRevision:
    """Bring it into force from the next tick on. What was in force, and older proposals, are retired; so is what is
    in force for the same target, where it is of `instead_of` or its retirement waits. Raises ValidationError.
    """
    with _one_at_a_time(), transaction.atomic():
        return _bring_into_force(_checked(revision, "activate", who), who, note, instead_of)


def retire(revision: PolicyRevision, who: str, note: str = "") -> PolicyRevision:
    """Withdraw a proposal, or take what is in force out of it; where its team wants approvals, it stays in force until another person has
    approved that. Raises ValidationError.
    """
    with _one_at_a_time(), transaction.atomic():
        row = _checked(revision, "retire", who)
        if row.state == STATE.ACTIVE and facts_of(row).wanting:
            row.retirement_by, row.retirement_at = who[:150], timezone.now()
            row.save(update_fields=["retirement_by", "retirement_at"])
            return _record(row, WHAT.RETIREMENT, who, note)
        return _end(row, who, note)


def keep(revision: PolicyRevision, who: str, note: str = "") -> PolicyRevision:
    """In force: withdraw its retirement, or reject that of somebody else. Raises ValidationError."""
    with _one_at_a_time(), transaction.atomic():
        row = _checked(revision, "keep", who)
        what = WHAT.RETIREMENT_WITHDRAWN if row.retirement_by == who[:150] else WHAT.RETIREMENT_REJECTED
        row.retirement_by, row.retirement_at = "", None
        row.save(update_fields=["retirement_by", "retirement_at"])
        return _record(row, what, who, note)


def rejection(revision: PolicyRevision) -> RevisionEvent | None:
    """Of its retirement, where nobody has proposed that again since."""
    about = (WHAT.RETIREMENT, WHAT.RETIREMENT_WITHDRAWN, WHAT.RETIREMENT_REJECTED)
    newest = RevisionEvent.objects.filter(revision=revision, what__in=about).first()
    return newest if newest is not None and newest.what == WHAT.RETIREMENT_REJECTED else None


def may_replace(earlier: PolicyRevision, revision: PolicyRevision) -> bool:
    """Whether another policy may take the place of what is in force for the same target: its approval holds for both, where it is by
    every team that the earlier one is of.
    """
    if not facts_of(earlier).wanting:
        return True
    return (
        revision.state == STATE.APPROVED
        and owning_teams.of_text(earlier.text).teams <= owning_teams.of_text(revision.text).teams
    )


TAKE: Mapping[lifecycle.Step, Callable[[PolicyRevision, str, str], PolicyRevision]] = {
    "shadow": shadow,
    "approve": approve,
    "activate": activate,
    "retire": retire,
    "keep": keep,
}
"""The steps that a person takes at once, with who takes it and a note. A preview is a job (`previews`)."""


def previewed(number: int, result: dict[str, object], who: str) -> None:
    """Store what a preview measured. A draft becomes previewed, unless nothing could be measured: then it has the reason, and what an
    earlier preview measured stays. `number` is the row's.
    """
    with transaction.atomic():
        revision = PolicyRevision.objects.select_for_update().get(pk=number)
        if "error" in result:
            if revision.previewed_at is None:
                revision.preview = result
                revision.save(update_fields=["preview"])
            return
        revision.preview, revision.previewed_at = result, timezone.now()
        if revision.state == STATE.DRAFT:
            revision.state = STATE.PREVIEWED
        revision.save(update_fields=["preview", "previewed_at", "state"])
        _record(revision, WHAT.PREVIEWED, who)


def roll_back_to(name: str) -> PolicyRevision | None:
    """The revision that a roll-back brings back: what was in force before the present text; None where there is none."""
    active = PolicyRevision.objects.filter(name=name, state=STATE.ACTIVE).first()
    if active is None:
        return None
    earlier = PolicyRevision.objects.filter(
        name=name, activated_at__isnull=False, number__lt=active.restores or active.number
    )
    return earlier.exclude(text_sha256=active.text_sha256).order_by("-number").first()


def roll_back(
    name: str, who: str, number: int | None = None, note: str = "", guard: Guard = unguarded
) -> PolicyRevision:
    """A new revision with the text of an earlier one, in force at once: it was approved when it was new.

    `number`: a revision that was in force; else what was in force before. `guard` is asked of it. Raises ValidationError.
    """
    with _one_at_a_time(), transaction.atomic():
        rows = _locked(name)
        active = rows.filter(state=STATE.ACTIVE).first()
        if active is None:
            raise ValidationError({"name": f"name={name!r} has no revision in force to roll back from: activate one"})
        guard(active)
        earlier = roll_back_to(name) if number is None else rows.filter(number=number).first()
        if earlier is None:
            missing = (
                f"number={number} is no revision of {name!r}" if number else f"name={name!r} had no other text in force"
            )
            raise ValidationError({"number" if number else "name": f"{missing}: choose a revision that was in force"})
        if earlier.activated_at is None or earlier.state == STATE.ACTIVE:
            why = "is in force" if earlier.activated_at else "was never in force"
            raise ValidationError(
                {"number": f"number={earlier.number} {why}: choose a revision that was in force before"}
            )
        guard(earlier)
        why = note.strip() or f"Rolls back to revision {earlier.number}"
        made = _successor(
            earlier, who, why, earlier.text, source=ROLL_BACK, restores=earlier.restores or earlier.number
        )
        return _bring_into_force(made, who, note)


def rewrite(active: PolicyRevision, text: str, who: str, note: str) -> PolicyRevision:
    """A new revision with another text of what is in force, in force at once: Weir follows what another policy says about it.

    Only weights of pools that the fleet has may differ.
    """
    return _in_force(_successor(active, who, note, text, source=CANARY), who, note)


def _successor(
    earlier: PolicyRevision, who: str, note: str, text: str, *, source: str, restores: int | None = None
) -> PolicyRevision:
    """The policy's next revision, which takes preview and approval of an earlier one over. One that follows a canary takes over too that
    its retirement waits; a roll-back is somebody's word that it stays.
    """
    leaves = (
        {"retirement_by": earlier.retirement_by, "retirement_at": earlier.retirement_at} if source == CANARY else {}
    )
    made = PolicyRevision.objects.create(
        name=earlier.name,
        kind=earlier.kind,
        number=_locked(earlier.name)[0].number + 1,
        text=text,
        team=earlier.team,
        author=who[:150],
        source=source,
        label=earlier.label,
        note=note[:500],
        restores=restores,
        preview=earlier.preview,
        previewed_at=earlier.previewed_at,
        approved_by=earlier.approved_by,
        approved_at=earlier.approved_at,
        **leaves,
    )
    return _record(made, WHAT.PROPOSED, who, made.note)


def _bring_into_force(
    revision: PolicyRevision, who: str, note: str, instead_of: Collection[str] = ()
) -> PolicyRevision:
    policy = policy_of(revision)
    for path, message in checks.unknown_names(policy, names.fleet(policy)):
        raise ValidationError({dotted(path): message})
    for other in PolicyRevision.objects.filter(kind=revision.kind, state=STATE.ACTIVE).exclude(name=revision.name):
        theirs = try_policy_of(other)
        if theirs is None or names.target(theirs) != names.target(policy):
            continue
        if (other.name in instead_of or other.waits_for_retirement) and may_replace(other, revision):
            _end(_locked(other.name).get(pk=other.pk), who, f"{revision} took its place")
        else:
            raise ValidationError(
                {
                    "spec": f"{names.target(policy)} has a {revision.kind} policy in force, {other.name!r}: retire that one first"
                }
            )
    return _in_force(revision, who, note)


def _in_force(revision: PolicyRevision, who: str, note: str) -> PolicyRevision:
    policy = policy_of(revision)
    if isinstance(policy, Routing):
        publish.publish_rules(revision.name, route_rules(policy))
    for row in _locked(revision.name).filter(number__lt=revision.number).exclude(state=STATE.RETIRED):
        _retire(row, who, f"revision {revision.number} took its place")
    revision.state, revision.activated_by, revision.activated_at = STATE.ACTIVE, who[:150], timezone.now()
    revision.save(update_fields=["state", "activated_by", "activated_at"])
    _say(revision, policy, f"in force by {who}{_text(note or revision.note)}", revision.activated_at)
    return _record(revision, WHAT.ACTIVATED, who, note)


def _end(row: PolicyRevision, who: str, note: str) -> PolicyRevision:
    """Retire it, in force or not."""
    was_active = row.state == STATE.ACTIVE
    if was_active and row.kind == PolicyRevision.Kind.ROUTING:
        publish.publish_rules(row.name, ())
    _retire(row, who, note)
    if was_active and row.retired_at is not None:
        _say(row, try_policy_of(row), f"taken out of force by {who}{_text(note)}", row.retired_at)
    return row


def _retire(revision: PolicyRevision, who: str, note: str) -> PolicyRevision:
    revision.state, revision.retired_by, revision.retired_at = STATE.RETIRED, who[:150], timezone.now()
    revision.save(update_fields=["state", "retired_by", "retired_at"])
    return _record(revision, WHAT.RETIRED, who, note)


def _checked(revision: PolicyRevision, step: lifecycle.Step, who: str) -> PolicyRevision:
    """The row as it is now, locked. Raises ValidationError where the step cannot be taken."""
    now = _locked(revision.name).get(pk=revision.pk)
    if reason := lifecycle.why_not(step, facts_of(now), who):
        raise ValidationError({"state": f"state={now.state!r}: {reason}"})
    return now


def _record(revision: PolicyRevision, what: RevisionEvent.What, who: str, note: str = "") -> PolicyRevision:
    record_step(revision, what, who, note)
    log.info("policy.revision_changed", policy=revision.name, revision=revision.number, step=str(what), by=who)
    return revision


def _say(revision: PolicyRevision, policy: Policy | None, what: str, at: datetime) -> None:
    """Have it recorded as a change, which charts and incidents show. What comes with a set-up has changed nothing, and what a canary
    writes is recorded as the canary's."""
    if revision.source not in (BOOTSTRAP, CANARY) or revision.retired_at is not None:
        summary = shortened(f"policy {revision.name}, revision {revision.number} ({revision.kind}): {what}", 1_000)
        identity = f"policy/{revision.name}/{revision.number}/{revision.state}"
        changes.say(identity, summary, "policies", at, revision.team, names.scope(policy) if policy else {})


def _text(note: str) -> str:
    return f": {note.strip()}" if note.strip() else ""


def _locked(name: str) -> QuerySet[PolicyRevision]:
    """The policy's revisions, the newest first, so that two steps of a policy follow each other."""
    rows: QuerySet[PolicyRevision] = PolicyRevision.objects.select_for_update().filter(name=name).order_by("-number")
    return rows


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Two people who take steps at the same moment: one of them has to look again."""
    try:
        yield
    except IntegrityError:
        raise ValidationError(
            {"state": "somebody else changed this policy at the same moment: look at it again"}
        ) from None
