"""Policies as code: makes the policies of the database equal to files, all or none. Applying the same again changes nothing."""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from django.core.exceptions import ValidationError
from django.db import transaction

from controlplane.accounts.rights import Guard, unguarded
from controlplane.core.documents.lifecycle import OPEN
from controlplane.core.documents.plan import (
    TEXT_ONLY,
    Action,
    Applied,
    FieldChange,
    PlanStep,
    changed_fields,
    conflict_with,
    names_to_prune,
)
from controlplane.core.documents.problem import Problem
from controlplane.fleet.snapshot_values import fleet_values
from controlplane.policy import owning_teams
from controlplane.policy.core.document import ReadPolicy
from controlplane.policy.core.spec import Routing
from controlplane.policy.models import PolicyRevision
from controlplane.policy.revisions import names, previews, steps
from controlplane.policy.revisions.read import PolicyTextError, plain_of, read_policies, try_policy_of

STATE = PolicyRevision.State
Goal = Literal["draft", "shadow", "active"]
RevisionStep = PlanStep[int | None]
"""Its key is the number of the stored revision that is brought on, or retired."""


def check(texts: Mapping[str, str]) -> tuple[list[ReadPolicy], list[Problem]]:
    """The policies of files by name, and what to correct, by line."""
    policies: list[ReadPolicy] = []
    problems: list[Problem] = []
    for source, text in texts.items():
        read, wrong = read_policies(text, source)
        policies += read
        problems += wrong
    first: dict[str, ReadPolicy] = {}
    for policy in policies:
        twin = first.setdefault(policy.name, policy)
        if twin is not policy:
            at = f"{twin.source}:{twin.node.mark.line}"
            message = f"metadata.name={policy.name!r} is the name of the policy at {at} too: choose another"
            problems.append(policy.problem(("metadata", "name"), message, "duplicate"))
    return policies, sorted(problems)


def apply(
    texts: Mapping[str, str],
    *,
    label: str,
    who: str,
    source: str = "file",
    goal: Goal = "active",
    note: str = "",
    prune: bool = False,
    adopt: bool = False,
    again: bool = False,
    dry_run: bool = False,
    guard: Guard = unguarded,
) -> Applied[int | None]:
    """Apply files by name. `label` marks what they own. `adopt` takes over what others wrote, `again` brings back a text that was rolled
    back. A dry run does everything and rolls back, so that it finds the same errors. `guard` is asked of each revision.
    """
    policies, problems = check(texts)
    planned = [] if problems else plan(policies, label, goal, who, prune=prune, adopt=adopt, again=again)
    applied = Applied(len(policies), planned, problems, False)
    if not applied.possible:
        return applied
    by_name = {policy.name: policy for policy in policies}
    with transaction.atomic():
        refusals: list[Problem] = []
        leaving = {step.name for step in planned if step.action == "retire"}
        for step in planned:
            try:
                _carry_out(step, by_name.get(step.name), label, who, source, goal, note, guard, leaving)
                if adopt and step.name in by_name:
                    for row in PolicyRevision.objects.filter(name=step.name).exclude(state=STATE.RETIRED):
                        row.label = label
                        row.save(update_fields=["label"])
            except (ValidationError, PolicyTextError) as error:
                refusals += _refused(by_name.get(step.name), error)
        done = not dry_run and not refusals
        transaction.set_rollback(not done)
    return Applied(len(policies), planned, refusals, done)


def export(chosen: Sequence[str] = ()) -> dict[str, str]:
    """The texts that are in force, by name: those named, or all."""
    rows = PolicyRevision.objects.filter(state=STATE.ACTIVE)
    if chosen:
        rows = rows.filter(name__in=chosen)
    return dict(rows.order_by("name").values_list("name", "text"))


def plan(
    policies: Sequence[ReadPolicy],
    label: str,
    goal: Goal = "active",
    who: str = "",
    *,
    prune: bool = False,
    adopt: bool = False,
    again: bool = False,
) -> list[RevisionStep]:
    """What is pruned comes last: what takes its place retires it."""
    stored: dict[str, list[PolicyRevision]] = {}
    for row in PolicyRevision.objects.order_by("name", "-number"):
        stored.setdefault(row.name, []).append(row)
    planned = [
        _step(policy, stored.get(policy.name, []), label, goal, who, adopt=adopt, again=again) for policy in policies
    ]
    open_ones = {name: newest for name, rows in stored.items() if (newest := _newest_open(rows)) is not None}
    labels = {name: newest.label for name, newest in open_ones.items()}
    for name in names_to_prune(labels, {policy.name for policy in policies}, label) if prune else ():
        row = next((row for row in stored[name] if row.state == STATE.ACTIVE), open_ones[name])
        action, note = _pruned(row, policies, stored, goal, again=again)
        planned.append(PlanStep(action, row.kind, name, row.number, "", note=f"in none of the files{note}"))
    return planned


def _pruned(
    row: PolicyRevision,
    policies: Sequence[ReadPolicy],
    stored: Mapping[str, Sequence[PolicyRevision]],
    goal: Goal,
    *,
    again: bool,
) -> tuple[Action, str]:
    """What becomes of a policy that no file has. `row`: what is in force of it, or the newest proposal."""
    if row.state != STATE.ACTIVE:
        return "retire", ""
    policy = try_policy_of(row)
    for heir in policies:
        if policy is not None and (heir.kind, names.target(heir.policy)) == (row.kind, names.target(policy)):
            newest = _newest_open(stored.get(heir.name, []))
            if not _comes_into_force(heir, newest, goal):
                return "waits", f"; stays in force until {heir.name} takes its place"
            if newest is not None and steps.may_replace(row, newest):
                return "retire", f"; {heir.name} takes its place"
    if not steps.facts_of(row).wanting:
        return "retire", ""
    if row.waits_for_retirement:
        return "waits", f"; its retirement, which {row.retirement_by} proposed, waits for another person's approval"
    if (rejected := steps.rejection(row)) and not again:
        return (
            "conflict",
            f"; its retirement was rejected by {rejected.who}: put it back into the files, or give --again",
        )
    return "propose", "; its retirement waits for another person's approval"


def _comes_into_force(wanted: ReadPolicy, newest: PolicyRevision | None, goal: Goal) -> bool:
    """With this apply. `newest`: its newest revision that is not retired."""
    if goal != "active" or not owning_teams.wanting(wanted.policy):
        return goal == "active"
    return newest is not None and newest.state == STATE.APPROVED and newest.text == wanted.text


def _step(
    wanted: ReadPolicy, stored: Sequence[PolicyRevision], label: str, goal: Goal, who: str, *, adopt: bool, again: bool
) -> RevisionStep:
    """What applying a document does. `stored`: the policy's revisions, the newest first."""

    def step(
        action: Action, note: str, number: int | None = None, changes: tuple[FieldChange, ...] = ()
    ) -> RevisionStep:
        return PlanStep(action, wanted.kind, wanted.name, number, wanted.source, changes, note)

    needs_approval = bool(owning_teams.wanting(wanted.policy))
    ahead = {"draft": "as a draft", "shadow": "in shadow", "active": "in force"}[goal]
    if goal == "active" and needs_approval:
        ahead = "waits for another person's approval; its preview begins"
    if isinstance(wanted.policy, Routing) and wanted.policy.spec.failover:
        for failover, tenants in names.unmoved(wanted.policy, fleet_values()).items():
            ahead += f"; {failover} does not move {', '.join(tenants)}, whose regions forbid it"
    active = next((revision for revision in stored if revision.state == STATE.ACTIVE), None)
    newest = _newest_open(stored)
    if newest is None:
        return step("create", ahead)
    if newest.label != label and not adopt:
        return step("conflict", conflict_with(newest.label))
    if active is not None and active.text == wanted.text:
        note = f"revision {active.number} is in force"
        if not active.waits_for_retirement:
            return step("unchanged", note, active.number)
        if active.retirement_by == who:
            return step(
                "continue", f"revision {active.number} stays in force: its retirement is withdrawn", active.number
            )
        note += f"; its retirement, which {active.retirement_by} proposed, waits for another person's approval"
        return step("unchanged", note, active.number)
    if newest.state in OPEN and newest.text == wanted.text:
        return step(*_brought_on(newest, goal, needs_approval=needs_approval), newest.number)
    if active is not None and not again and (left := _rolled_back(wanted, active, stored)):
        return step(
            "conflict",
            f"is the text of revision {left.number}, which was rolled back to revision {active.restores}: change the file, or "
            "give --again",
        )
    if active is not None and not again and (left := _followed(wanted, active, stored)):
        return step(
            "conflict",
            f"is the text of revision {left.number}, whose weights follow a canary since revision {active.number}: put its weights into "
            "the file, or give --again",
        )
    changes = changed_fields(plain_of(active or newest), wanted.node.plain_mapping)
    return step("change", ahead, None, changes or (TEXT_ONLY,))


def _newest_open(stored: Sequence[PolicyRevision]) -> PolicyRevision | None:
    """The newest revision that is not retired."""
    return next((revision for revision in stored if revision.state != STATE.RETIRED), None)


def _brought_on(newest: PolicyRevision, goal: Goal, *, needs_approval: bool) -> tuple[Action, str]:
    """What is done with a proposal that has the text already."""
    number = newest.number
    if goal == "active" and needs_approval and newest.state != STATE.APPROVED:
        return "waits", f"revision {number} waits for another person's approval"
    if goal == "active":
        return "continue", f"revision {number} comes into force"
    if goal == "shadow" and newest.state in (STATE.DRAFT, STATE.PREVIEWED):
        return "continue", f"revision {number} goes into shadow"
    return "unchanged", f"revision {number} is {newest.state}"


def _rolled_back(wanted: ReadPolicy, active: PolicyRevision, stored: Sequence[PolicyRevision]) -> PolicyRevision | None:
    """The revision of this text that a roll-back has taken out of force."""
    if active.restores is None:
        return None
    later = (revision for revision in stored if revision.activated_at is not None and revision.number > active.restores)
    return next((revision for revision in later if revision.text == wanted.text), None)


def _followed(wanted: ReadPolicy, active: PolicyRevision, stored: Sequence[PolicyRevision]) -> PolicyRevision | None:
    """The revision of this text whose weights a canary has changed: the text would give a candidate its share back."""
    if active.source != steps.CANARY:
        return None
    earlier = (revision for revision in stored if revision.activated_at is not None and revision.source != steps.CANARY)
    newest = next(earlier, None)
    return newest if newest is not None and newest.text == wanted.text else None


def _carry_out(
    step: RevisionStep,
    policy: ReadPolicy | None,
    label: str,
    who: str,
    source: str,
    goal: Goal,
    note: str,
    guard: Guard,
    leaving: Collection[str],
) -> None:
    """`leaving` are the names of policies whose place others may take."""
    if step.action in ("retire", "propose"):
        guard(PolicyRevision.objects.get(name=step.name, number=step.key or 0))
        for row in PolicyRevision.objects.filter(name=step.name).exclude(state=STATE.RETIRED):
            steps.retire(row, who, "in none of the applied files any more")
    elif step.action in ("create", "change", "continue") and policy is not None:
        if step.action == "continue":
            row = PolicyRevision.objects.get(name=step.name, number=step.key or 0)
        else:
            row = steps.propose(policy.text, who=who, source=source, note=note, label=label, guard=guard).revision
        guard(row)
        _bring_on(row, who, goal, leaving)


def _bring_on(row: PolicyRevision, who: str, goal: Goal, leaving: Collection[str]) -> None:
    if row.waits_for_retirement:
        steps.keep(row, who, "in the applied files again")
    elif goal == "shadow":
        steps.shadow(row, who)
    elif goal == "active" and steps.facts_of(row).wanting and row.state != STATE.APPROVED:
        previews.start(row, who)
    elif goal == "active":
        steps.activate(row, who, instead_of=leaving)


def _refused(policy: ReadPolicy | None, error: ValidationError | PolicyTextError) -> list[Problem]:
    if policy is None:  # what is retired is in no file
        raise error
    if isinstance(error, PolicyTextError):
        return error.problems
    return [policy.problem((), message, "refused") for message in error.messages]
