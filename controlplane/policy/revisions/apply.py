"""Policies as code: makes the policies of the database equal to files, all or none. Applying the same again changes nothing."""

from collections.abc import Mapping, Sequence

from django.core.exceptions import ValidationError
from django.db import transaction

from controlplane.core.documents.plan import Applied, PlanStep, names_to_prune
from controlplane.core.documents.problem import Problem
from controlplane.policy.core.document import ReadPolicy
from controlplane.policy.models import PolicyRevision
from controlplane.policy.revisions import names, previews, steps
from controlplane.policy.revisions.core.apply_plan import Goal, RevisionStep, Stored, Wanted, newest_open, plan_step
from controlplane.policy.revisions.read import PolicyTextError, plain_of, read_policies

STATE = PolicyRevision.State


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
) -> Applied[int | None]:
    """Apply files by name. `label` marks what they own. A dry run does everything and rolls back, so that it finds the same errors."""
    policies, problems = check(texts)
    planned = [] if problems else _plan(policies, label, goal, prune=prune, adopt=adopt, again=again)
    applied = Applied(len(policies), planned, problems, False)
    if not applied.possible:
        return applied
    by_name = {policy.name: policy for policy in policies}
    with transaction.atomic():
        refusals: list[Problem] = []
        # What is retired makes room for what takes its target over.
        for step in sorted(planned, key=lambda step: step.action != "retire"):
            try:
                _carry_out(step, by_name.get(step.name), label, who, source, goal, note)
                if adopt and step.action != "retire":
                    PolicyRevision.objects.filter(name=step.name).exclude(state=STATE.RETIRED).update(label=label)
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


def _plan(
    policies: Sequence[ReadPolicy], label: str, goal: Goal, *, prune: bool, adopt: bool, again: bool
) -> list[RevisionStep]:
    stored: dict[str, list[Stored]] = {}
    kinds: dict[str, str] = {}
    for row in PolicyRevision.objects.order_by("name", "-number"):
        revision = Stored(
            number=row.number,
            state=row.state,
            text=row.text,
            label=row.label,
            plain=plain_of(row) if row.state != STATE.RETIRED else {},
            was_in_force=row.activated_at is not None,
            restores=row.restores,
        )
        stored.setdefault(row.name, []).append(revision)
        kinds.setdefault(row.name, row.kind)
    planned = [
        plan_step(_wanted(policy), stored.get(policy.name, []), label, goal, adopt=adopt, again=again)
        for policy in policies
    ]
    open_ones = {name: newest for name, rows in stored.items() if (newest := newest_open(rows)) is not None}
    labels = {name: newest.label for name, newest in open_ones.items()}
    for name in names_to_prune(labels, {policy.name for policy in policies}, label) if prune else ():
        planned.append(PlanStep("retire", kinds[name], name, open_ones[name].number, "", note="in none of the files"))
    return planned


def _wanted(policy: ReadPolicy) -> Wanted:
    team = policy.policy.metadata.team or names.owner(policy.policy)
    needs_approval = names.needs_approval(policy.policy, team)
    return Wanted(policy.kind, policy.name, policy.source, policy.text, policy.node.plain_mapping, needs_approval)


def _carry_out(
    step: RevisionStep, policy: ReadPolicy | None, label: str, who: str, source: str, goal: Goal, note: str
) -> None:
    if step.action == "retire":
        row = PolicyRevision.objects.get(name=step.name, number=step.key or 0)
        steps.retire(row, who, "in none of the applied files any more")
    elif step.action in ("create", "change", "continue") and policy is not None:
        if step.action == "continue":
            row = PolicyRevision.objects.get(name=step.name, number=step.key or 0)
        else:
            row = steps.propose(policy.text, who=who, source=source, note=note, label=label).revision
        _bring_on(row, who, goal)


def _bring_on(row: PolicyRevision, who: str, goal: Goal) -> None:
    if goal == "shadow":
        steps.shadow(row, who)
    elif goal == "active" and steps.revision_facts(row).needs_approval and row.state != STATE.APPROVED:
        previews.start(row, who)
    elif goal == "active":
        steps.activate(row, who)


def _refused(policy: ReadPolicy | None, error: ValidationError | PolicyTextError) -> list[Problem]:
    if policy is None:  # what is retired is in no file
        raise error
    if isinstance(error, PolicyTextError):
        return error.problems
    return [policy.problem((), message, "refused") for message in error.messages]
