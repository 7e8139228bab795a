"""The states of a change that somebody proposes, and which step may be taken from each, by whom: of a policy and of the fleet alike.

draft → previewed → shadow → approved → active → retired. A preview and a shadow may be left out where no team wants approvals. Where one
does, what is in force is retired in two steps: one person proposes it, and another approves.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

State = Literal["draft", "previewed", "shadow", "approved", "active", "retired"]
Step = Literal["preview", "shadow", "approve", "activate", "retire", "keep"]

OPEN: tuple[State, ...] = ("draft", "previewed", "shadow", "approved")
"""Proposed, and neither in force nor given up."""


class Rule(NamedTuple):
    """From which states a step may be taken, and the noun by which messages name it; the words of its button, what it means, and what is
    said once it was taken.
    """

    before: tuple[State, ...]
    noun: str
    words: str
    means: str
    said: str


RULES: Mapping[Step, Rule] = {
    "preview": Rule(
        (*OPEN, "active"), "a preview", "Preview", "Run it over recorded traffic, beside what is in force",
        "The preview has begun: its figures appear here.",
    ),
    "shadow": Rule(
        ("draft", "previewed"), "a shadow", "Put in shadow", "It decides and records, and does not act",
        "It is in shadow within a second.",
    ),
    "approve": Rule(
        ("previewed", "shadow"), "an approval", "Approve", "By another person than its author",
        "It is approved, and can be activated.",
    ),
    "activate": Rule(OPEN, "activation", "Activate", "In force within a second", "It is in force within a second."),
    "retire": Rule((*OPEN, "active"), "retirement", "Retire", "Take it out of force, or withdraw it", "It is retired."),
    "keep": Rule(
        ("active",), "keeping it in force", "Keep in force",
        "Its retirement is withdrawn, or rejected where another person proposed it", "It stays in force.",
    ),
}  # fmt: skip
STEPS: tuple[Step, ...] = tuple(RULES)
_FORWARD: tuple[Step, ...] = ("preview", "approve", "activate")


@dataclass(frozen=True, slots=True)
class Facts:
    """What decides which steps a change may take.

    `wanting`: the teams that want another person's approval. `wrong`: why it cannot come into force as things are, with the remedy.
    `lapsed`: it was approved when it would have changed something else. `retirement_by`: who proposed to retire it, while it is in force
    until another person approves that. `steps`: those that there are for it.
    """

    state: State
    author: str
    wanting: tuple[str, ...] = ()
    wrong: str = ""
    lapsed: bool = False
    retirement_by: str = ""
    steps: tuple[Step, ...] = STEPS


def why_not(step: Step, of: Facts, who: str) -> str:
    """Why `who` cannot take this step now, with the remedy; empty where it can be taken. Rights are asked apart."""
    rule = RULES[step]
    if step not in of.steps:
        return f"it is {of.state}: {_remedy(of.state)}"
    if of.retirement_by and step in ("approve", "retire"):
        return _why_not_retired(step, of, who)
    if of.wrong and step in _FORWARD and of.state in OPEN:
        return of.wrong
    if step == "approve" and of.state == "draft":
        shadow = "; where nothing can be measured, put it in shadow" if "shadow" in of.steps else ""
        return f"it has no preview of what it would change now: preview it first{shadow}"
    if of.state not in rule.before:
        return f"{rule.noun} is for what is {_any_of(rule.before)}, and this is {of.state}: {_remedy(of.state)}"
    if step == "approve" and is_same(of.author, who):
        return f"{who!r} proposed it, and an approval is by another person: ask another approver of its team"
    if step == "activate" and of.wanting and of.state != "approved":
        if of.lapsed:
            return "it would change something else now than when it was approved: have it approved again"
        whose = f"{' and '.join(of.wanting)} wants another person's approval"
        return f"{whose}, and this is {of.state}: have it approved by somebody other than its author"
    if step == "keep" and not of.retirement_by:
        return "nobody has proposed to retire it: it stays in force by itself"
    return ""


def possible(of: Facts, who: str) -> tuple[Step, ...]:
    """The steps that `who` could take now, rights left aside."""
    return tuple(step for step in of.steps if not why_not(step, of, who))


@dataclass(frozen=True, slots=True)
class Button:
    """`means`: what it does, or why it cannot be done. `confirms`: it is done only once the person has said so again, because it changes
    what is in force.
    """

    step: str
    words: str
    means: str
    refused: bool = False
    confirms: bool = True


def buttons(of: Facts, who: str, whom: Callable[[Step], str]) -> list[Button]:
    """The steps that could be taken, and those on the way into force with why not. `whom`: why `who` has no right to a step, if so."""
    shown = []
    for step in of.steps:
        why, is_leaving = why_not(step, of, who), bool(of.retirement_by)
        waits = step == "approve" if is_leaving else step in ("approve", "activate") and of.state in OPEN
        if (why and not waits) or (step == "approve" and not of.wanting and not is_leaving):
            continue
        words, means = RULES[step].words, RULES[step].means
        if step == "approve" and is_leaving:
            words, means = "Approve its retirement", f"Out of force within a second: {of.retirement_by} proposed it"
        elif step == "retire" and of.state in OPEN:
            words, means = ("Withdraw" if is_same(of.author, who) else "Reject"), "It never comes into force"
        elif step == "retire" and of.wanting:
            words, means = "Propose to retire it", "It stays in force until another person has approved that"
        why = why or whom(step)
        confirms = step in ("activate", "retire", "keep") or (step == "approve" and is_leaving)
        shown.append(Button(step, words, why or means, bool(why), confirms))
    return shown


def is_same(author: str, who: str) -> bool:
    return author.strip().casefold() == who.strip().casefold()


def _why_not_retired(step: Step, of: Facts, who: str) -> str:
    if step == "retire":
        return f"its retirement by {of.retirement_by} waits for another person's approval" if of.wanting else ""
    if is_same(of.retirement_by, who):
        return (
            f"{who!r} proposed its retirement, and an approval is by another person: ask another approver of its team"
        )
    return ""


def _remedy(state: State) -> str:
    remedies: Mapping[State, str] = {"retired": "propose it again", "active": "propose another one, or roll back"}
    return remedies.get(state, "choose another step")


def _any_of(states: tuple[State, ...]) -> str:
    return f"{', '.join(states[:-1])} or {states[-1]}" if len(states) > 1 else states[0]
