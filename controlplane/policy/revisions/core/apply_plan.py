"""Plans what applying files of policies changes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from controlplane.core.documents.plan import TEXT_ONLY, Action, FieldChange, PlanStep, changed_fields, conflict_with
from controlplane.policy.revisions.core.lifecycle import OPEN, State

Goal = Literal["draft", "shadow", "active"]
RevisionStep = PlanStep[int | None]
"""Its key is the number of the stored revision that is brought on, or retired."""


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


def plan_step(
    wanted: Wanted, stored: Sequence[Stored], label: str, goal: Goal, *, adopt: bool = False, again: bool = False
) -> RevisionStep:
    """What applying a document does. `stored`: the policy's revisions, the newest first.

    `adopt` takes over what others wrote; `again` brings back a text that was rolled back.
    """

    def step(
        action: Action, note: str, number: int | None = None, changes: tuple[FieldChange, ...] = ()
    ) -> RevisionStep:
        return PlanStep(action, wanted.kind, wanted.name, number, wanted.source, changes, note)

    active = next((revision for revision in stored if revision.state == "active"), None)
    newest = newest_open(stored)
    if newest is None:
        return step("create", _ahead(wanted, goal))
    if newest.label != label and not adopt:
        return step("conflict", conflict_with(newest.label))
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
    return step(
        "change", _ahead(wanted, goal), None, changed_fields((active or newest).plain, wanted.plain) or (TEXT_ONLY,)
    )


def newest_open(stored: Sequence[Stored]) -> Stored | None:
    """The newest revision that is not retired."""
    return next((revision for revision in stored if revision.state != "retired"), None)


def _ahead(wanted: Wanted, goal: Goal) -> str:
    if goal == "active" and wanted.needs_approval:
        return "waits for another person's approval; its preview begins"
    return {"draft": "as a draft", "shadow": "in shadow", "active": "in force"}[goal]


def _brought_on(
    newest: Stored, wanted: Wanted, goal: Goal, step: Callable[[Action, str, int], RevisionStep]
) -> RevisionStep:
    number = newest.number
    if goal == "active" and wanted.needs_approval and newest.state != "approved":
        made = step("waits", f"revision {number} waits for another person's approval", number)
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
