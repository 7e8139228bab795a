"""The states of a revision, and which step may be taken from each, by whom.

draft → previewed → shadow → approved → active → retired. A preview and a shadow may be left out where no approval is needed. Where it is,
what is in force is retired in two steps: one person proposes it, and another approves.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

State = Literal["draft", "previewed", "shadow", "approved", "active", "retired"]
RevisionStep = Literal["preview", "shadow", "approve", "activate", "retire", "keep"]

OPEN: tuple[State, ...] = ("draft", "previewed", "shadow", "approved")
"""Proposed, and neither in force nor given up."""


@dataclass(frozen=True, slots=True)
class Rule:
    """From which states a step may be taken, and the noun by which messages name it."""

    before: tuple[State, ...]
    noun: str


RULES: Mapping[RevisionStep, Rule] = {
    "preview": Rule(("draft", "previewed", "shadow", "approved", "active"), "a preview"),
    "shadow": Rule(("draft", "previewed"), "a shadow"),
    "approve": Rule(("previewed", "shadow"), "an approval"),
    "activate": Rule(OPEN, "activation"),
    "retire": Rule((*OPEN, "active"), "retirement"),
    "keep": Rule(("active",), "keeping it in force"),
}
STEPS: tuple[RevisionStep, ...] = tuple(RULES)


@dataclass(frozen=True, slots=True)
class RevisionFacts:
    """What decides which steps a revision may take."""

    state: State
    number: int
    author: str
    needs_approval: bool
    active_number: int | None = None  # of the policy's revision that is in force
    retirement_by: str = ""  # who proposed to retire it, while it is in force until another person approves that


def why_not(step: RevisionStep, revision: RevisionFacts, who: str) -> str:
    """Why `who` cannot take this step now, with the remedy; empty where it can be taken."""
    rule = RULES[step]
    if revision.retirement_by and step in ("approve", "retire"):
        return _why_not_retired(step, revision, who)
    if revision.state == "draft" and step == "approve":
        return (
            "a draft cannot be approved: run its preview first, so that the approval has figures; where nothing can be "
            "measured, put it in shadow"
        )
    if revision.state not in rule.before:
        return (
            f"{rule.noun} is for a revision that is {_any_of(rule.before)}, and this one is {revision.state}: "
            f"{_remedy(revision.state)}"
        )
    if step == "approve" and _is_same(revision.author, who):
        return f"{who!r} wrote this revision, and an approval is by another person: ask another approver of its team"
    if step == "activate":
        return _why_not_active(revision)
    if step == "keep" and not revision.retirement_by:
        return "nobody has proposed to retire it: it stays in force by itself"
    return ""


def possible(revision: RevisionFacts, who: str) -> tuple[RevisionStep, ...]:
    """The steps that `who` could take now, rights left aside."""
    return tuple(step for step in STEPS if not why_not(step, revision, who))


def _why_not_active(revision: RevisionFacts) -> str:
    if revision.active_number is not None and revision.active_number > revision.number:
        return (
            f"revision {revision.active_number} is in force and newer than {revision.number}: roll back, or propose the "
            "text as a new revision"
        )
    if revision.needs_approval and revision.state != "approved":
        return (
            f"its team wants another person's approval, and this revision is {revision.state}: have it approved by "
            "somebody other than its author"
        )
    return ""


def _why_not_retired(step: RevisionStep, revision: RevisionFacts, who: str) -> str:
    proposer = revision.retirement_by
    if step == "retire":
        return f"its retirement by {proposer} waits for another person's approval" if revision.needs_approval else ""
    if _is_same(proposer, who):
        return (
            f"{who!r} proposed its retirement, and an approval is by another person: ask another approver of its team"
        )
    return ""


def _is_same(author: str, who: str) -> bool:
    return author.strip().casefold() == who.strip().casefold()


def _remedy(state: State) -> str:
    if state == "retired":
        return "propose its text as a new revision"
    if state == "active":
        return "propose a new revision, or roll back"
    return "choose another step"


def _any_of(states: tuple[State, ...]) -> str:
    return f"{', '.join(states[:-1])} or {states[-1]}" if len(states) > 1 else states[0]
