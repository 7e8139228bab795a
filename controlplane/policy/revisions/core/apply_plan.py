"""Plans what applying files of policies changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from controlplane.policy.revisions.core.lifecycle import OPEN, State
from controlplane.slo.openslo.core.apply_plan import Change, flat

Goal = Literal["draft", "shadow", "active"]
Action = Literal["create", "change", "continue", "waits", "unchanged", "retire", "conflict"]

SIGNS: Mapping[Action, str] = {
    "create": "+", "change": "~", "continue": "~", "waits": "?", "unchanged": "=", "retire": "-", "conflict": "!",
}  # fmt: skip
COUNTED: Mapping[Action, str] = {
    "create": "created", "change": "changed", "continue": "brought on", "waits": "waiting for approval", "unchanged": "unchanged",
    "retire": "retired", "conflict": "in conflict",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stored:
    """A revision as it is stored."""

    number: int
    state: State
    text: str
    label: str
    plain: Mapping[str, Any]
    was_in_force: bool
    restores: int | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """A document of the files."""

    kind: str
    name: str
    source: str
    text: str
    plain: Mapping[str, Any]
    needs_approval: bool


@dataclass(frozen=True, slots=True)
class Step:
    """What applying does with one policy."""

    action: Action
    kind: str
    name: str
    source: str
    note: str = ""
    changes: tuple[Change, ...] = ()
    number: int | None = None  # of the stored revision that is brought on, or retired


def plan_step(
    wanted: Wanted, stored: Sequence[Stored], label: str, goal: Goal, *, adopt: bool = False, again: bool = False
) -> Step:
    """What applying a document does. `stored`: the policy's revisions, the newest first.

    `adopt` takes over what others wrote; `again` brings back a text that was rolled back.
    """

    def step(action: Action, note: str = "", number: int | None = None, changes: tuple[Change, ...] = ()) -> Step:
        return Step(action, wanted.kind, wanted.name, wanted.source, note, changes, number)

    active = next((revision for revision in stored if revision.state == "active"), None)
    newest = next((revision for revision in stored if revision.state != "retired"), None)
    if newest is None:
        return step("create", _ahead(wanted, goal))
    if newest.label != label and not adopt:
        return step("conflict", _whose(newest))
    if active is not None and active.text == wanted.text:
        return step("unchanged", f"revision {active.number} is in force", active.number)
    if newest.state in OPEN and newest.text == wanted.text:
        return _brought_on(newest, wanted, goal, step)
    if active is not None and not again and (left := _rolled_back(wanted, active, stored)):
        return step(
            "conflict",
            f"is the text of revision {left.number}, which was rolled back to revision {active.restores}: change the file, or "
            "give --again",
        )
    return step("change", _ahead(wanted, goal), None, differences((active or newest).plain, wanted.plain))


def plan_retirements(
    names: Mapping[str, Sequence[Stored]], kinds: Mapping[str, str], wanted: set[str], label: str
) -> list[Step]:
    """Policies of the label that are in none of the files any more."""
    steps = []
    for name, stored in sorted(names.items()):
        newest = next((revision for revision in stored if revision.state != "retired"), None)
        if newest is not None and label and newest.label == label and name not in wanted:
            steps.append(Step("retire", kinds[name], name, "", "in none of the files", number=newest.number))
    return steps


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Change, ...]:
    """The fields that differ, by dotted names; only comments or layout where there are none."""
    old, new = flat(before), flat(after)
    changes = [
        Change(name, old.get(name), new.get(name))
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name)
    ]
    return tuple(changes) or (Change("text", None, None),)


def summary(steps: Sequence[Step]) -> dict[Action, int]:
    """How many of each action there are."""
    return {action: count for action in COUNTED if (count := sum(step.action == action for step in steps))}


def sentence(steps: Sequence[Step], done: bool) -> str:
    """`Nothing changed: 3 unchanged.`, `1 created, 2 changed.`, or `Would be: 1 created.`"""
    counts = summary(steps)
    parts = ", ".join(f"{count} {COUNTED[action]}" for action, count in counts.items())
    if set(counts) <= {"unchanged", "waits"}:
        return f"Nothing {'changed' if done else 'to change'}: {parts or 'no documents'}."
    return f"{'' if done else 'Would be: '}{parts}."


def _ahead(wanted: Wanted, goal: Goal) -> str:
    if goal == "active" and wanted.needs_approval:
        return "waits for another person's approval; its preview begins"
    return {"draft": "as a draft", "shadow": "in shadow", "active": "in force"}[goal]


def _brought_on(newest: Stored, wanted: Wanted, goal: Goal, step: Any) -> Step:
    number = newest.number
    if goal == "active" and wanted.needs_approval and newest.state != "approved":
        made: Step = step("waits", f"revision {number} waits for another person's approval", number)
    elif goal == "active":
        made = step("continue", f"revision {number} comes into force", number)
    elif goal == "shadow" and newest.state in ("draft", "previewed"):
        made = step("continue", f"revision {number} goes into shadow", number)
    else:
        made = step("unchanged", f"revision {number} is {newest.state}", number)
    return made


def _rolled_back(wanted: Wanted, active: Stored, stored: Sequence[Stored]) -> Stored | None:
    if active.restores is None:
        return None
    return next(
        (
            revision
            for revision in stored
            if revision.was_in_force and revision.text == wanted.text and revision.number > active.restores
        ),
        None,
    )


def _whose(newest: Stored) -> str:
    if newest.label:
        return f"belongs to the owner label {newest.label!r}: rename it, apply it there, or give --adopt"
    return "was written by hand: rename it, or give --adopt"
