"""The tick: observe, decide, record, act. Pure decisions are made by `core.decide`; everything here carries them in and out."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

import msgspec
from django.db import transaction

from controlplane.fleet import publish
from controlplane.fleet.clusters.errors import StaleLeaderError
from controlplane.fleet.clusters.port import HAND, Cluster
from controlplane.fleet.models import Pool
from controlplane.observability.tracing import span
from controlplane.policy import plan_actions
from controlplane.policy.act import discovery, journal
from controlplane.policy.act.actor import Actor, Turn
from controlplane.policy.act.core.overlay import awaited, is_empty, overlay, with_kept
from controlplane.policy.act.journal import Fence
from controlplane.policy.act.outcomes import write_outcomes
from controlplane.policy.core.decision import Decision
from controlplane.policy.core.memory import Left, kept
from controlplane.policy.core.observation import Observation
from controlplane.policy.core.record import record_of
from controlplane.policy.decider import decider
from controlplane.policy.faults import Fault, named, of_leader, of_tick, report, unseen
from controlplane.policy.follow import follow
from controlplane.policy.in_force import Policies, PolicyReader
from controlplane.policy.models import DecisionRecord, Memory
from controlplane.policy.observe.core.obeying import Late, Published, astray, late
from controlplane.policy.observe.core.traffic import Traffic
from controlplane.policy.observe.gather import Background, gather
from controlplane.policy.observe.spent import Meter
from controlplane.policy.write_records import DecisionTrack
from inference.contract.rules import NO_OVERLAY, Overlay

OVERLAY_S = 300.0
"""How long gateways obey an overlay that nobody renews. Then they go back to what owners entered."""
RENEW_S = OVERLAY_S / 3


@dataclass(frozen=True, slots=True)
class Leader:
    """This process while it leads. `fence` raises LeaseLostError in a transaction once another one does."""

    holder: str
    generation: int
    fence: Fence


@dataclass(frozen=True, slots=True)
class Ticked:
    """What a tick saw and concluded. No decision where no policy is in force."""

    observation: Observation | None = None
    decision: Decision | None = None
    record: DecisionRecord | None = None
    policies: Policies = field(default_factory=Policies)
    failing: Mapping[str, str] = field(default_factory=dict)
    """By reference, why an active policy cannot be followed, although it can be read."""
    faults: tuple[Fault, ...] = ()
    took_s: float = 0.0


class Engine:
    """One per process. `background` is what is read beside the ticks, `clusters` those of the fleet by name.

    Without `threads` a tick ends once its actions are as far as they go.
    """

    def __init__(
        self,
        background: Callable[[], Background],
        clusters: Callable[[], Mapping[str, Cluster]],
        *,
        clock: Callable[[], int] = lambda: int(time.time() * 1_000),
        threads: bool = True,
    ) -> None:
        self._background, self._clusters, self._clock, self._threads = background, clusters, clock, threads
        self._policies = PolicyReader()
        self._actors: dict[str, Actor] = {}
        self._traffic = Traffic()
        self._generation = 0
        self._began_s = 0.0  # of the tick
        self._begin()

    def _begin(self) -> None:
        """Forget what another leader may have changed."""
        self._meter = Meter()
        self._active: DecisionTrack | None = None
        self._shadow: DecisionTrack | None = None
        self._overlay: tuple[Overlay, int] | None = None
        self._overlay_refused = ""
        self._heard_ms: int | None = None
        self._late: dict[str, Late] = {}

    def tick(self, leader: Leader, now_ms: int) -> Ticked:
        """One tick. Raises LeaseLostError, DatabaseError."""
        began = self._began_s = time.monotonic()
        if leader.generation != self._generation:
            self._generation = leader.generation
            self._begin()
        clusters = self._clusters()
        seen = {name: cluster.seen() for name, cluster in clusters.items()}
        policies = self._policies.read()
        with span("policy tick", policies=len(policies.active)):
            discovery.discover(seen.values(), leader.fence)
            known = self._background()
            self._traffic = traffic = replace(known.traffic, since_ms=self._heard_ms)
            known = replace(known, traffic=traffic, clusters=seen, spent=self._meter.spent(now_ms))
            with span("observe"):
                observation = gather(now_ms, policies.all, known)
            with span("decide"):
                ticked = self._decide(leader, observation, policies, clusters)
            self._heard_ms = traffic.rounds[-1].at_ms if traffic.rounds else None
            refused = {name: actor.snapshot_refused for name, actor in self._actors.items()}
            unreadable = {**policies.unreadable, **ticked.failing}
            faults = (
                *of_leader(leader.generation, self._refused_as_former(leader.generation)),
                *self._astray(traffic, now_ms),
                *of_tick(ticked.decision, seen, refused, unreadable, self._tracks(), journal.at(now_ms)),
            )
            hidden = unseen(ticked.decision, refused, self._not_heard(traffic))
            hidden |= {each.subject for each in policies.left}  # nobody judges what they are about
            self._close(leader, observation, faults, hidden, named(ticked.decision, policies))
        return replace(ticked, faults=faults, took_s=time.monotonic() - began)

    def _took_s(self) -> float:
        return time.monotonic() - self._began_s

    def stop(self) -> None:
        for actor in self._actors.values():
            actor.stop()

    def _decide(
        self, leader: Leader, observation: Observation, policies: Policies, clusters: Mapping[str, Cluster]
    ) -> Ticked:
        """What acts, then what is in shadow."""
        self._active = track = self._active or DecisionTrack.load(Memory.ACTIVE)
        track.count_from(observation.now_ms)
        has_state = track.memory != type(track.memory)()
        seen = [cluster.seen() for cluster in clusters.values()]
        if not (policies.active or has_state or journal.any_undone() or any(plan_actions.raised(seen))):
            self._act(Turn(leader.generation, leader.fence, acts=False), clusters)
            self._shadowed(leader, observation, policies)
            return Ticked(observation, None, None, policies)
        followed = follow(observation, policies.active, track.memory)
        decision, active = followed.decision, followed.policies
        record = record_of(followed.observation, active, track.memory, decision, decider())
        left = (*policies.left, *followed.left)
        decision = msgspec.structs.replace(decision, memory=kept(decision.memory, track.memory, left))
        with track.unless_it_fails(), transaction.atomic():
            leader.fence()
            undone = plan_actions.end_lost(observation.now_ms, leader.generation, leader.fence)
            steps = plan_actions.reconcile(decision, observation, undone, left, seen)
            row = None
            if steps.begin or steps.returned or track.is_new(decision) or track.is_due(observation.now_ms):
                begins = {each.target for each in steps.begin}
                row = track.write_record(record, leader.holder, leader.generation, begins, took_s=self._took_s())
            moved = write_outcomes(decision)
            shown = None if row else record  # a row of this tick has it
            track.write_memory(
                decision, observation.now_ms, leader.generation, at_once=bool(row) or moved, record=shown
            )
            begun = [] if row is None else plan_actions.begin(steps, row, active, observation, leader.generation)
        self._overlaid(decision, observation, left, row, leader)
        turn = Turn(
            leader.generation,
            leader.fence,
            steps.go_on | {action.pk for action in begun},
            steps.give_up,
            named=frozenset(name for name in decision.targets if not _is_anothers(name, observation, decision)),
        )
        self._act(turn, clusters)
        self._shadowed(leader, observation, policies)
        return Ticked(observation, decision, row, policies, followed.failing)

    def _shadowed(self, leader: Leader, observation: Observation, policies: Policies) -> None:
        """Decide and record as if the revisions in shadow were active; nothing is done."""
        if not policies.shadow:
            self._shadow = None
            return
        self._shadow = track = self._shadow or DecisionTrack.load(Memory.SHADOW)
        track.count_from(observation.now_ms)
        followed = follow(observation, policies.shadow, track.memory)
        decision = followed.decision
        record = record_of(followed.observation, followed.policies, track.memory, decision, decider())
        new = track.is_new(decision)
        with track.unless_it_fails(), transaction.atomic():
            leader.fence()
            if new or track.is_due(observation.now_ms):
                track.write_record(
                    record, leader.holder, leader.generation, shadows=policies.in_shadow, took_s=self._took_s()
                )
            track.write_memory(decision, observation.now_ms, leader.generation, at_once=new)

    def _overlaid(
        self,
        decision: Decision,
        observation: Observation,
        left: Collection[Left],
        row: DecisionRecord | None,
        leader: Leader,
    ) -> None:
        """Have gateways obey the decision, and renew what they obey before it expires."""
        now_ms = observation.now_ms
        moved = {model for model, each in decision.models.items() if each.moved}
        routes = _routes() if moved or left else {}
        bare = overlay(decision.models, routes, awaited(observation, decision.memory.targets))
        if left:
            bare = with_kept(bare, self._overlay[0] if self._overlay else publish.last_overlay(), left, routes)
        if self._overlay is not None:
            before, at_ms = self._overlay
            same = before == bare
            if same and (is_empty(bare) or 0 <= now_ms - at_ms < RENEW_S * 1_000):
                return
        key = row.key if row is not None else ""
        expires_ms = 0 if is_empty(bare) else now_ms + int(OVERLAY_S * 1_000)
        value = NO_OVERLAY if is_empty(bare) else msgspec.structs.replace(bare, decision=key, expires_ms=expires_ms)
        try:
            publish.publish_overlay(value, leader.generation)
        except StaleLeaderError as error:  # if another leads by now, the end of the tick is refused too
            self._overlay_refused = str(error)
            return
        self._overlay, self._overlay_refused = (bare, now_ms), ""

    def _act(self, turn: Turn, clusters: Mapping[str, Cluster]) -> None:
        for name in self._actors.keys() - clusters.keys():
            self._actors.pop(name).stop()
        for name, cluster in clusters.items():
            actor = self._actors.get(name)
            if actor is None or actor.cluster is not cluster:
                if actor is not None:
                    actor.stop()
                actor = self._actors[name] = Actor(cluster, lambda: self._traffic, _endpoints_version, self._clock)
                if self._threads:
                    actor.start()
            if self._threads:
                actor.take(turn)
            else:
                actor.act(turn)

    def _close(
        self,
        leader: Leader,
        observation: Observation,
        faults: tuple[Fault, ...],
        unseen: frozenset[str],
        named: frozenset[str] | None,
    ) -> None:
        """Write what was used and what is wrong."""
        self._meter.add(observation.pools, observation.now_ms)
        with transaction.atomic():
            leader.fence()
            self._meter.write(observation.now_ms)
            report(faults, journal.at(observation.now_ms), unseen, named)

    def _refused_as_former(self, generation: int) -> dict[str, str]:
        """By place, why it takes this leader for a former one."""
        why = {"policy snapshot": self._overlay_refused}
        why |= {name: actor.refused_as_former(generation) for name, actor in self._actors.items()}
        return {place: text for place, text in why.items() if text}

    def _astray(self, traffic: Traffic, now_ms: int) -> Iterator[Fault]:
        """Gateways that do not obey what is in force, or whose clock is off."""
        ready = [heard for heard in traffic.in_use() if heard.ready]
        self._late = late(self._late, ready, Published(*publish.published_versions(now_ms)), now_ms)
        for each in astray(ready, self._late, now_ms):
            yield Fault("gateway", each.url, each.text, each.severity)

    def _not_heard(self, traffic: Traffic) -> Iterator[str]:
        """Gateways of which nobody knows whether they obey: they are silent, or behind, and not for long as far as this process knows."""
        return (each.url for each in traffic.in_use() if each.problem or each.signals is None or each.url in self._late)

    def _tracks(self) -> list[DecisionTrack]:
        return [track for track in (self._active, self._shadow) if track is not None]


def _is_anothers(target: str, observation: Observation, decision: Decision) -> bool:
    """Whether somebody else has set a count that was Weir's: taking it on as it is would end what is said of that."""
    facts, memory = observation.pools.get(target), decision.memory.targets.get(target)
    return facts is not None and memory is not None and memory.owned and facts.owner_of_count == HAND


def _routes() -> dict[str, dict[str, int]]:
    """What owners entered: weights by model and pool."""
    routes: dict[str, dict[str, int]] = {}
    rows = Pool.objects.filter(enabled=True).values_list("variant__model__name", "name", "weight")
    for model, pool, weight in rows:
        routes.setdefault(model, {})[pool] = weight
    return routes


def _endpoints_version() -> int | None:
    """The version of endpoints that has everything that is committed by now."""
    publish.publish()
    return publish.endpoints_version() or None
