"""Makes the fleet and the policies what custom resources say, each through the same check, plan and apply as a file.

What can be followed is followed, and each of the others says why not and changes nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from controlplane.accounts.rights import unguarded
from controlplane.core.acting import Actor, acting
from controlplane.core.documents.plan import Applied, PlanStep
from controlplane.core.documents.problem import Problem
from controlplane.core.documents.writing import join_documents
from controlplane.fleet.changes import WEIR
from controlplane.fleet.files import proposals
from controlplane.fleet.files.apply import plan as plan_fleet
from controlplane.fleet.files.kinds import KINDS as FLEET
from controlplane.fleet.files.reading import check as check_fleet
from controlplane.fleet.files.revisions import drifts, labels
from controlplane.fleet.models import FleetProposal
from controlplane.policy.models import PolicyRevision
from controlplane.policy.revisions import steps
from controlplane.policy.revisions.apply import apply as apply_policies
from controlplane.policy.revisions.apply import check as check_policies
from controlplane.policy.revisions.apply import plan as plan_policies
from controlplane.sources.core.resources import FINALIZER, Outcome, Reason

Fence = Callable[[], None]
"""Called first in each transaction. Raises LeaseLostError where another process leads by now."""
Outcomes = dict[str, Outcome]
"""By the source of what was declared."""
APPLIED = Outcome("Applied", "What it says is in force.")
_LEAVES = "The retirement of {row} waits for another person's approval: /policies/{row.name}?revision={row.number}"


@dataclass(frozen=True)
class Declared:
    """A custom resource as a document. `name` is that in Weir; `source` is `pool/chat-eu`, as kubectl names the object."""

    kind: str
    name: str
    source: str
    text: str
    is_new: bool = True
    """Whether it was changed since its status was written."""

    @property
    def is_fleet(self) -> bool:
        return self.kind in FLEET


@dataclass(frozen=True)
class Reconciler:
    """Of one namespace. `label` marks what it owns."""

    namespace: str
    label: str
    fence: Fence

    def follow(self, declared: Sequence[Declared]) -> Outcomes:
        """The fleet is first, because policies name it."""
        outcomes = self._fleet([each for each in declared if each.is_fleet])
        return outcomes | self._policies([each for each in declared if not each.is_fleet])

    def _fleet(self, declared: Sequence[Declared]) -> Outcomes:
        wanted, problems = check_fleet({each.source: each.text for each in declared})
        outcomes = _invalid(problems)
        outcomes |= _known(plan_fleet([each for each in wanted if each.document.source not in outcomes], self.label))
        drifted = {(it.kind, it.name): it.revision.author for it in drifts() if it.label == self.label}
        outcomes |= {
            each.source: _drifted(author)
            for each in declared
            if each.source not in outcomes
            and not each.is_new
            and (author := drifted.get((each.kind, each.name), "")).startswith(WEIR)
        }
        # What was changed here and is the same there by now is applied too, so that it is a drift no more.
        differing = [
            each
            for each in declared
            if each.source not in outcomes or (outcomes[each.source] == APPLIED and (each.kind, each.name) in drifted)
        ]
        for each in differing:
            outcomes |= self._attempt([each], self._author(each))
        # One may name another: a model its fallbacks, and pools their model.
        refused = [each for each in differing if outcomes[each.source].reason == "Invalid"]
        together: Outcomes = {}
        while len(refused) > 1 and len(together) < len(refused):
            together = self._attempt(refused, self._author())
            outcomes |= together
            refused = [each for each in refused if each.source not in together]
        waiting = {self._author(each) for each in differing} | ({self._author()} if together else set())
        self._withdraw({self._author(), *map(self._author, declared)} - waiting)
        return outcomes

    def _author(self, each: Declared | None = None) -> str:
        return f"cluster: {self.namespace}{f'/{each.source}' if each else ''}"[:150]

    def _attempt(self, those: Sequence[Declared], author: str, *, removed: bool = False) -> Outcomes:
        """All or none. Where some of several are wrong, only those have an outcome."""
        text = "" if removed else join_documents(each.text for each in those)
        leaving = [(each.kind, each.name) for each in those] if removed else []
        waiting = FleetProposal.objects.filter(author=author, ended_at=None).first()
        if waiting is not None and (waiting.text, bool(waiting.removes)) == (text, removed):
            return dict.fromkeys((each.source for each in those), self._waits(waiting))
        self._withdraw({author})
        with self._as(author):
            texts = {} if removed else {each.source: each.text for each in those}
            sent = proposals.apply_or_propose(texts, author=author, label=self.label, removes=leaving)
        if sent.proposal is not None:
            return dict.fromkeys((each.source for each in those), self._waits(sent.proposal))
        wrong = {source: it for source, it in _invalid(sent.applied.problems).items() if source in texts}
        return wrong or dict.fromkeys(
            (each.source for each in those), _outcome(sent.applied, "InUse" if removed else "Invalid")
        )

    def _waits(self, proposal: FleetProposal) -> Outcome:
        """Brings it into force once it is approved."""
        why = f"Proposal {proposal.pk} waits for another person's approval: /changes/proposals/{proposal.pk}"
        if proposal.approved_by:
            try:
                with self._as(proposal.author):
                    proposals.take("activate", proposal.pk, proposal.author, unguarded)
            except ValidationError as error:
                why = f"Proposal {proposal.pk}: {' '.join(error.messages)}"
            else:
                return APPLIED
        return Outcome("WaitsForApproval", why)

    def _withdraw(self, authors: Iterable[str]) -> None:
        """What they proposed and say no more."""
        for waiting in FleetProposal.objects.filter(author__in=authors, ended_at=None):
            with self._as(waiting.author):
                proposals.take("retire", waiting.pk, waiting.author, unguarded)

    @contextmanager
    def _as(self, author: str) -> Iterator[None]:
        with acting(lambda: Actor(author, "custom resource")), transaction.atomic():
            self.fence()
            yield

    def _policies(self, declared: Sequence[Declared]) -> Outcomes:
        self._keep({self._author(each) for each in declared})
        outcomes = self._planned_policies(declared)
        for each in declared:
            if each.source not in outcomes:
                who = self._author(each)
                with self._as(who):
                    applied = apply_policies({each.source: each.text}, label=self.label, who=who, source="kubernetes")
                outcomes[each.source] = _outcome(applied, "Invalid")
                outcomes |= self._planned_policies([each])
        return outcomes

    def _keep(self, authors: Iterable[str]) -> None:
        """In force what they proposed to retire, and declare again."""
        for row in PolicyRevision.objects.filter(state=PolicyRevision.State.ACTIVE, retirement_by__in=authors):
            with self._as(row.retirement_by):
                steps.keep(row, row.retirement_by, "its custom resource is there again")

    def _planned_policies(self, declared: Sequence[Declared]) -> Outcomes:
        """Of those that need no change, wait, or cannot be."""
        read, problems = check_policies({each.source: each.text for each in declared})
        outcomes = _invalid(problems)
        return outcomes | _known(plan_policies([each for each in read if each.source not in outcomes], self.label))

    def retire(self, declared: Sequence[Declared]) -> Outcomes:
        """What becomes of what deleted objects owned: `Applied` where it is gone, stays as files would leave it, or was never theirs."""
        outcomes = {each.source: self._retired_policy(each) for each in declared if not each.is_fleet}
        owned = labels()
        fleet = [each for each in declared if each.is_fleet]
        theirs = [
            each
            for each in fleet
            if owned.get((each.kind, each.name)) == self.label and not FLEET[each.kind].why_kept(each.name)
        ]
        outcomes |= {each.source: APPLIED for each in fleet if each not in theirs}
        if len(theirs) > 1:  # what is used by another that goes too can only go with it
            retired = self._attempt(theirs, self._author(), removed=True)
            if all(each.reason != "InUse" for each in retired.values()):
                return outcomes | retired
        for each in reversed(theirs):
            outcomes |= self._attempt([each], self._author(each), removed=True)
        return outcomes

    def _retired_policy(self, each: Declared) -> Outcome:
        rows = PolicyRevision.objects.filter(name=each.name, kind=each.kind, label=self.label)
        who, outcome = self._author(each), APPLIED
        try:
            with self._as(who):
                for row in rows.exclude(state=PolicyRevision.State.RETIRED):
                    if rejected := steps.rejection(row):
                        return _rejected(rejected.who)
                    if not (row.waits_for_retirement and steps.facts_of(row).wanting):
                        row = steps.retire(row, who, "its custom resource was deleted")
                    if row.waits_for_retirement:
                        outcome = Outcome("WaitsForApproval", _LEAVES.format(row=row))
        except ValidationError as error:
            return Outcome("InUse", " ".join(error.messages))
        return outcome


def _rejected(who: str) -> Outcome:
    why = f"{who} rejected its retirement: propose it in Weir again, or remove the finalizer {FINALIZER} to leave it in force."
    return Outcome("Conflict", why)


def _drifted(author: str) -> Outcome:
    return Outcome("Drifted", f"{author} has changed it: write that into the object, or change the object otherwise.")


def _invalid(problems: Iterable[Problem]) -> Outcomes:
    """The first problem of each source, with the field."""
    outcomes: Outcomes = {}
    for each in problems:
        said = f"{each.path}: {each.message}" if each.path else each.message
        outcomes.setdefault(each.source, Outcome("Invalid", said))
    return outcomes


def _known(planned: Iterable[PlanStep[Any]]) -> Outcomes:
    """Of steps that change nothing."""
    reasons: dict[str, Reason] = {"conflict": "Conflict", "waits": "WaitsForApproval"}
    return {
        step.source: APPLIED
        if step.action == "unchanged"
        else Outcome(reasons[step.action], f"{step.kind} {step.name} {step.note}")
        for step in planned
        if step.action in ("unchanged", *reasons)
    }


def _outcome(applied: Applied[Any], refused: Reason) -> Outcome:
    if applied.done:
        return APPLIED
    said = [each.message for each in applied.errors] + [each.note for each in applied.conflicts]
    return Outcome(refused, "; ".join(said))
