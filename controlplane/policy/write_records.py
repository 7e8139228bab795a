"""Writes what ticks decided: records, the index of their changes, and what the next tick must remember."""

from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, fields
from datetime import datetime

from controlplane.fleet.changes import DECISIONS, say
from controlplane.policy.act.journal import at
from controlplane.policy.core.decision import Alarm, Decision, ModelDecision, TargetDecision
from controlplane.policy.core.memory import LadderMemory, Memory, until
from controlplane.policy.core.record import Record, RecordError, decode_memory, encode
from controlplane.policy.models import DecisionChange, DecisionRecord
from controlplane.policy.models import Memory as MemoryRow

HEARTBEAT_S = 60.0
"""A record is written at least so often, to show that ticks go on."""
MEMORY_S = 5.0
"""What a tick remembers is written at least so often; at once where it decided something new."""
MAX_REASON = 500
ACTS = ("up", "down", "raise_floor")
KINDS = DecisionChange.Kind


@dataclass(slots=True)
class DecisionTrack:
    """The decisions that act, or those of the policies in shadow: what the last one concluded, and what is remembered of it."""

    name: str
    memory: Memory = field(default_factory=Memory)
    stored: bytes = b""
    stored_ms: int = 0
    recorded_ms: int = 0
    concluded: Mapping[object, object] = field(default_factory=dict)
    problem: str = ""

    @classmethod
    def load(cls, name: str) -> "DecisionTrack":
        """As the last leader left it. What cannot be read is left out, and said."""
        row = MemoryRow.objects.filter(name=name).first()
        if row is None:
            return cls(name)
        try:
            memory, lost = decode_memory(row.document)
        except RecordError as error:
            return cls(name, problem=str(error))
        return cls(name, memory, row.document.encode(), problem="; ".join(lost))

    def count_from(self, now_ms: int) -> None:
        """Let what was remembered by a clock that was ahead count from now on."""
        self.memory = until(now_ms, self.memory)
        self.stored_ms, self.recorded_ms = min(self.stored_ms, now_ms), min(self.recorded_ms, now_ms)

    @contextmanager
    def unless_it_fails(self) -> Iterator[None]:
        """What the transaction inside remembers; what was remembered before, where it fails."""
        before = copy(self)
        try:
            yield
        except BaseException:
            for each in fields(self):
                setattr(self, each.name, getattr(before, each.name))
            raise

    def is_new(self, decision: Decision) -> bool:
        return conclusions(decision) != self.concluded

    def is_due(self, now_ms: int) -> bool:
        return now_ms - self.recorded_ms >= HEARTBEAT_S * 1_000

    def write_memory(
        self, decision: Decision, now_ms: int, generation: int, *, at_once: bool, record: Record | None = None
    ) -> None:
        """Within the caller's transaction. `record`: what pages show as of now, where the tick has no row."""
        self.memory = decision.memory
        if not at_once and now_ms - self.stored_ms < MEMORY_S * 1_000:
            return
        document = encode(decision.memory)
        self.stored_ms = now_ms
        if document == self.stored and record is None:
            return
        packed = b"" if record is None else DecisionRecord.pack(encode(record))
        MemoryRow.objects.update_or_create(
            name=self.name,
            defaults={"document": document.decode(), "at": at(now_ms), "generation": generation, "packed": packed},
        )
        self.stored = document

    def write_record(
        self,
        record: Record,
        holder: str,
        generation: int,
        begun: Container[str] = (),
        shadows: Container[str] | None = None,
        took_s: float = 0.0,
    ) -> DecisionRecord:
        """Within the caller's transaction. `begun`: pools for which an action begins. `shadows`: the policies that are recorded
        and not followed; None: all are followed. `took_s`: from the start of the tick until now.
        """
        now, before, after = at(record.decided_at_ms), self.concluded, conclusions(record.decision)
        made = [
            change
            for change in changes(record, before, begun, now)
            if shadows is None or f"{change.policy}@{change.revision}" in shadows
        ]
        row = DecisionRecord.objects.create(
            at=now,
            version=record.version,
            holder=holder,
            generation=generation,
            changed=bool(made),
            shadow=shadows is not None,
            took_s=took_s,
            packed=DecisionRecord.pack(encode(record)),
        )
        for change in made:
            change.decision, change.shadow = row, shadows is not None
        DecisionChange.objects.bulk_create(made)
        if shadows is None:
            _say(made, row.key)
        self.recorded_ms, self.concluded = record.decided_at_ms, after
        return row


def _say(made: Iterable[DecisionChange], key: str) -> None:
    """Have it recorded as changes that failovers and canaries send requests elsewhere: charts mark them, incidents name them."""
    for number, change in enumerate(made):
        if what := {KINDS.ROUTE: "failover", KINDS.CANARY: "canary"}.get(KINDS(change.kind)):
            say(
                f"decision/{key}/{number}",
                f"{what} {change.reason}",
                DECISIONS,
                change.at,
                scope={"model": change.model},
            )


def conclusions(decision: Decision) -> dict[object, object]:
    """What of a decision is news when it differs: not its figures, which differ each second."""
    said: dict[object, object] = {("target", name): conclusions_of(target) for name, target in decision.targets.items()}
    for name, model in decision.models.items():
        said["model", name] = (model.moved, model.canary, model.degradation)
    for alarm in decision.alarms:
        said["alarm", alarm.key] = alarm.severity
    return said


def changes(
    record: Record, before: Mapping[object, object], begun: Container[str], now: datetime
) -> Iterator[DecisionChange]:
    decision = record.decision
    for name, target in decision.targets.items():
        is_news = name in begun or before.get(("target", name)) != conclusions_of(target)
        if is_news and (change := _of_target(target, now)):
            yield change
    for model in decision.models.values():
        yield from _of_model(model, record.memory, now)
    for alarm in decision.alarms:
        if ("alarm", alarm.key) not in before:
            yield _of_alarm(alarm, decision, now)


def _of_alarm(alarm: Alarm, decision: Decision, now: datetime) -> DecisionChange:
    """With its subject as a pool or a model too, where the decision knows it as such."""
    subject = alarm.subject
    return DecisionChange(
        at=now,
        kind=KINDS.ALARM,
        subject=subject[:200],
        pool=subject[:100] if subject in decision.targets else "",
        model=subject[:200] if subject in decision.models else "",
        reason=alarm.text[:MAX_REASON],
    )


def conclusions_of(target: TargetDecision) -> object:
    rails = tuple(rail.name for rail in target.rails)
    return (target.seen, target.wanted, target.action, target.policy, rails)


def _of_target(target: TargetDecision, now: datetime) -> DecisionChange | None:
    kind = KINDS.SCALE if target.action in ACTS else KINDS.HOLD if target.action == "hold" else None
    if kind is None:
        return None
    policy, revision = _split_reference(target.policy)
    return DecisionChange(
        at=now,
        kind=kind,
        pool=target.target,
        policy=policy,
        revision=revision,
        before=target.seen,
        after=target.wanted,
        reason=target.reason[:MAX_REASON],
    )


def _of_model(model: ModelDecision, memory: Memory, now: datetime) -> Iterator[DecisionChange]:
    kinds = {"ladder": KINDS.LADDER, "failover": KINDS.ROUTE, "canary": KINDS.CANARY}
    for transition in model.transitions:
        if transition.before == transition.after:
            continue
        is_ladder = transition.kind == "ladder"
        level = memory.ladders.get(model.model, {}).get(transition.name, LadderMemory()).level if is_ladder else None
        after = (
            next((step.step for step in model.degradation if step.tier == transition.name), 0) if is_ladder else None
        )
        policy, revision = _split_reference(transition.policy)
        yield DecisionChange(
            at=now,
            kind=kinds[transition.kind],
            model=model.model,
            tier=transition.name[:63] if is_ladder else "",
            policy=policy,
            revision=revision,
            before=level,
            after=after,
            reason=f"{transition.name}: {transition.before} → {transition.after}: {transition.reason}"[:MAX_REASON],
        )


def _split_reference(reference: str) -> tuple[str, int | None]:
    name, _, revision = reference.partition("@")
    return name[:100], int(revision) if revision.isdigit() else None
