"""Changes of the fleet before they are made: what they would change, who has to approve them, and the way back to a revision."""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from controlplane.accounts import rights
from controlplane.accounts.core.actions import APPROVE_FLEET, EDIT_FLEET, REVIEW_FLEET
from controlplane.accounts.core.rule import NOBODY, Action, Owned
from controlplane.accounts.rights import Guard, unguarded
from controlplane.core.acting import actor
from controlplane.core.documents.lifecycle import Facts, State, why_not
from controlplane.core.documents.plan import Applied
from controlplane.core.documents.report import plan_lines
from controlplane.core.documents.writing import join_documents
from controlplane.fleet.core import forms
from controlplane.fleet.core.revision_words import changed
from controlplane.fleet.core.snapshot import policy_of
from controlplane.fleet.files import revisions
from controlplane.fleet.files.apply import AppliedFleet, apply
from controlplane.fleet.files.approval import wanting
from controlplane.fleet.files.differences import values_of_text
from controlplane.fleet.files.export import owner_of
from controlplane.fleet.files.kinds import KINDS, Key, stored, text_of
from controlplane.fleet.files.reading import check
from controlplane.fleet.models import FleetProposal, StepTaken, record_step
from inference.contract import snapshot

Step = Literal["preview", "approve", "activate", "retire"]
STEPS: Mapping[Step, Action] = {
    "preview": REVIEW_FLEET,
    "approve": APPROVE_FLEET,
    "activate": EDIT_FLEET,
    "retire": REVIEW_FLEET,
}


@dataclass(frozen=True)
class Outlook:
    """What a proposal would change now. `owned`: whose it is. `approval`: the teams that want another person's."""

    applied: AppliedFleet
    owned: Owned
    approval: tuple[str, ...]

    @property
    def gateways(self) -> str:
        """What they would obey otherwise, in words; empty: nothing."""
        return changed(*map(_plain, self.applied.obeyed)) if self.applied.obeyed else ""

    @property
    def who_may(self) -> dict[str, str]:
        """Who may take each step, as far as rights go. What no team owns, such as a GPU type, makes it administrators'."""
        return {step: rights.who_may(action, self.owned) for step, action in STEPS.items()}

    @property
    def is_nobodys(self) -> bool:
        return NOBODY in self.owned.teams

    @property
    def digest(self) -> str:
        return hashlib.sha256("\n".join(plan_lines(self.applied.steps)).encode()).hexdigest()


def outlook(proposal: FleetProposal, guard: Guard = unguarded, *, keep: bool = False) -> Outlook:
    """Does all of it, and takes it back unless it is to `keep` it."""
    touched: list[Owned] = []
    noting = _noting(touched, guard)
    with transaction.atomic():
        applied = _applied(proposal, noting)
        transaction.set_rollback(not keep)
    teams = frozenset().union(*(owned.teams for owned in touched))
    return Outlook(applied, Owned(teams, proposal.author), wanting(touched))


def _noting(touched: list[Owned], guard: Guard) -> Guard:
    """The guard, which also adds to `touched` whose each thing is."""

    def noting(thing: object) -> None:
        touched.append(rights.owned(thing))
        guard(thing)

    return noting


def _plain(document: snapshot.Snapshot) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(snapshot.encode(policy_of(document)))
    return plain


def _applied(proposal: FleetProposal, guard: Guard) -> AppliedFleet:
    return apply(
        {str(proposal): proposal.text} if proposal.text else {},
        label=proposal.label or None,
        note=proposal.note,
        author=proposal.author,
        restores=proposal.restores,
        removes=[(kind, name) for kind, name in proposal.removes],
        adopt=bool(proposal.label),
        guard=guard,
    )


def propose(
    text: str, *, author: str, note: str, label: str = "", removes: Collection[Key] = (), restores: int | None = None
) -> FleetProposal:
    """The open proposal of the same by this author, or a new one. Raises ValidationError where it would change nothing, or cannot be."""
    given: dict[str, Any] = {"text": text, "removes": sorted(map(list, removes)), "label": label, "restores": restores}
    made = FleetProposal(**given, note=note.strip()[:500], author=author[:150], via=actor().via[:100])
    if same := FleetProposal.objects.filter(**given, author=made.author, ended_at=None).first():
        return same
    seen = outlook(made).applied
    if not seen.possible:
        conflicts = [f"{step.kind} {step.name} {step.note}" for step in seen.conflicts]
        raise ValidationError("; ".join([*(each.text() for each in seen.problems), *conflicts][:3]))
    if not seen.changes_something:
        raise ValidationError("The fleet is like that already: there is nothing to change.")
    with transaction.atomic():
        made.save()
        record_step(made, StepTaken.What.PROPOSED, author, note)
    return made


@dataclass(frozen=True)
class Sent:
    """What became of files: they are applied, or wait as a proposal, or cannot be."""

    applied: Applied[Any]
    proposal: FleetProposal | None = None

    @property
    def refused(self) -> bool:
        return not self.applied.possible or bool(self.applied.problems)


def apply_or_propose(
    texts: Mapping[str, str],
    *,
    author: str,
    label: str | None,
    note: str = "",
    removes: Collection[Key] = (),
    prune: bool = False,
    adopt: bool = False,
    dry_run: bool = False,
    guard: Guard = unguarded,
) -> Sent:
    """Apply files, or propose what they change where it is a team's that wants another person's approval."""
    touched: list[Owned] = []
    noting = _noting(touched, guard)
    with transaction.atomic():
        applied = apply(
            texts, label=label, note=note, removes=removes, prune=prune, adopt=adopt, dry_run=dry_run, guard=noting
        )
        waits = applied.done and applied.changes_something and bool(wanting(touched))
        transaction.set_rollback(waits)
    if not waits:
        return Sent(applied)
    changing = {step.key for step in applied.steps if step.action in ("create", "change")}
    documents = [each.document.text for each in check(texts)[0] if each.key in changing]
    leaving = [step.key for step in applied.steps if step.action == "prune"]
    made = propose(join_documents(documents), author=author, note=note, label=label or "", removes=leaving)
    return Sent(replace(applied, done=False), made)


@dataclass
class Draft:
    """`proposal`: what became of a change, where it is not in force."""

    proposal: FleetProposal | None = None


@contextmanager
def drafted(author: str, label: str = "") -> Iterator[Draft]:
    """What is changed inside comes into force, or is taken back and proposed where a team whose it is wants another person's approval.
    `label` marks what files own. Raises ValidationError where it cannot be proposed.
    """
    draft, texts = Draft(), dict[Key, str]()
    with transaction.atomic(), revisions.touching() as touched:
        since = revisions.noted()
        yield draft
        if wanting(touched):
            texts = revisions.differing(since)
        transaction.set_rollback(bool(texts))
    if texts:
        text = join_documents(text for text in texts.values() if text)
        removes = [key for key in texts if not texts[key]]
        draft.proposal = propose(text, author=author, note="", label=label, removes=removes)


def bring_back(number: int, *, who: str, note: str = "", team: str = "") -> FleetProposal:
    """A proposal of the fleet as it was at a revision, or of what was this team's. Raises ValidationError.

    Teams, regions and clusters are made where they are missing, and stay as they are otherwise. Keys, issuers of tokens and purges
    stay as they are: what was revoked does not come back.
    """
    then = revisions.texts_at(number)
    now = stored()
    values = {key: values_of_text(key, text) for key, text in then.items()}
    texts, removes = [], []
    for key, text in then.items():
        returns = KINDS[key[0]].returns
        if returns == "never" or (returns == "missing" and key in now):
            continue
        if (key not in now or text_of(key, now[key], whole=True) != text) and _is_of(team, key, values, now):
            texts.append(text)
    for key in now:
        if key not in then and KINDS[key[0]].returns == "all" and _is_of(team, key, values, now):
            removes.append(key)
    why = note.strip() or f"Brings back revision {number}" + (f" of {team}" if team else "")
    return propose(join_documents(texts), note=why, author=who, removes=removes, restores=number)


def _is_of(team: str, key: Key, *fleets: Mapping[Key, forms.Values]) -> bool:
    return not team or any(owner_of(key, fleet) == team for fleet in fleets)


def facts_of(proposal: FleetProposal, seen: Outlook | None) -> Facts:
    """What decides which steps it may take. `seen`: what it would change now, for which alone a preview and an approval hold; None once it
    has ended.
    """
    if seen is None:
        return Facts("active" if proposal.revision_id else "retired", proposal.author, steps=())
    wrong = ""
    if not seen.applied.possible or seen.applied.problems:
        wrong = "it cannot be applied as the fleet is now: correct what is listed, and propose it again"
    elif not seen.applied.changes_something:
        wrong = "the fleet is like that already: withdraw it"
    state: State = "previewed" if proposal.preview.get("plan") == seen.digest else "draft"
    if proposal.approved_plan == seen.digest:
        state = "approved"
    lapsed = bool(proposal.approved_plan) and state != "approved"
    return Facts(state, proposal.author, seen.approval, wrong, lapsed, steps=tuple(STEPS))


_TAKEN: Mapping[Step, StepTaken.What] = {
    "approve": StepTaken.What.APPROVED,
    "activate": StepTaken.What.ACTIVATED,
    "retire": StepTaken.What.RETIRED,
}


def take(step: Step, number: int, who: str, guard: Guard, note: str = "") -> FleetProposal:
    """Raises ValidationError where the step cannot be taken; what `guard` raises where `who` may not. A preview is a job, which is started
    elsewhere (`controlplane/policy/preview/proposal.py`).
    """
    with transaction.atomic():
        proposal = FleetProposal.objects.select_for_update().get(pk=number)
        activates, seen = step == "activate", None
        if proposal.is_open:
            seen = outlook(proposal, guard if activates else unguarded, keep=activates)
            if (step, who) != ("retire", proposal.author):
                guard(seen.owned)
        if reason := why_not(step, facts_of(proposal, seen), who):
            raise ValidationError({"state": reason})
        if seen is not None and step == "approve":
            proposal.approved_by, proposal.approved_at, proposal.approved_plan = who[:150], timezone.now(), seen.digest
        elif step != "preview":
            proposal.ended_by, proposal.ended_at = who[:150], timezone.now()
            proposal.revision = revisions.write() if activates else None
        proposal.save()
        if step in _TAKEN:
            record_step(proposal, _TAKEN[step], who, note)
    return proposal
