"""A thread for each cluster takes its actions on: a cluster that hangs holds up no tick, and no other cluster."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import structlog

from controlplane.core.backoff import doubled_s, waits
from controlplane.core.lease import LeaseLostError
from controlplane.core.periodic import PeriodicThread
from controlplane.core.seldom import Seldom
from controlplane.fleet.clusters.errors import ClusterError, StaleLeaderError
from controlplane.fleet.clusters.port import Cluster
from controlplane.policy.act import journal
from controlplane.policy.act.journal import Fence
from controlplane.policy.act.snapshots import MAX_WAIT_S, SnapshotWriter
from controlplane.policy.act.stepper import Stepper
from controlplane.policy.models import Action
from controlplane.policy.observe.core.traffic import Traffic

log = structlog.get_logger(__name__)

CLAIM_AGAIN_S = 5.0
MAX_STEPS = 8
"""Of one action in one turn."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What may be done until the next tick: actions that go on, those that are given up and why, and those whose end is not known.

    Without `acts` the policy snapshot is stored in the cluster, and nothing else is done there.
    """

    generation: int
    fence: Fence
    go_on: frozenset[int] = frozenset()
    give_up: Mapping[int, str] | None = None
    acts: bool = True
    named: frozenset[str] = frozenset()
    """What policies in force name."""


class Actor(PeriodicThread):
    """Thread of one cluster, woken by each turn."""

    def __init__(
        self,
        cluster: Cluster,
        traffic: Callable[[], Traffic],
        endpoints_version: Callable[[], int | None],
        clock: Callable[[], int],
    ) -> None:
        super().__init__(f"actions-{cluster.name}", self._act_on_turn, every_s=None)
        self.cluster = cluster
        self._traffic, self._endpoints_version, self._clock = traffic, endpoints_version, clock
        self._turn: Turn | None = None
        self._snapshot = SnapshotWriter(cluster, clock)
        self._claimed: tuple[int, frozenset[str]] = (0, frozenset())
        self._former = (0, "")
        self._claim_from_ms = 0
        self._claimed_again = 0
        self._claiming = Seldom()

    @property
    def snapshot_refused(self) -> str | None:
        """Why the cluster does not take the policy snapshot; empty where it does, and None where that is not known."""
        return self._snapshot.refused

    def refused_as_former(self, generation: int) -> str:
        """Why the cluster takes this leader for a former one; empty where it does not."""
        at, why = self._former
        return why if at == generation else ""

    def take(self, turn: Turn) -> None:
        """Replace the turn that has not begun yet."""
        self._turn = turn
        self.wake()

    def _act_on_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is None:
            return
        try:
            self.act(turn)
        except LeaseLostError as lost:
            log.warning("actions.stopped", cluster=self.cluster.name, reason=str(lost))

    def act(self, turn: Turn) -> None:
        """Take every action on as far as it goes now, then store the snapshot where it has changed. Raises LeaseLostError and
        DatabaseError.
        """
        try:
            if turn.acts:
                self._take_on(turn)
            self._snapshot.write(turn.generation)
        except StaleLeaderError as error:
            if not self.refused_as_former(turn.generation):
                log.warning("actions.stopped", cluster=self.cluster.name, reason=str(error))
            self._former = (turn.generation, str(error))
        else:
            self._former = (0, "")

    def _take_on(self, turn: Turn) -> None:
        stepper = Stepper(
            self.cluster, self._traffic, self._endpoints_version, turn.fence, turn.generation, self._clock
        )
        actions = [action for action in journal.undone() if action.cluster == self.cluster.name]
        wanted = [action for action in actions if action.pk in turn.go_on and action.ended_at is None]
        if not self._claim(turn, stepper, wanted):  # before there is anything to do, so that nothing waits for it then
            return
        for action in actions:
            if turn.give_up and action.pk in turn.give_up and action.ended_at is None:
                stepper.give_up(action, turn.give_up[action.pk])
            elif action.pk in turn.go_on:
                for _ in range(MAX_STEPS):
                    if not stepper.advance(action):
                        break
        for action in actions:
            if action.step == Action.Step.ACCEPTED:
                stepper.settle(action)

    def _claim(self, turn: Turn, stepper: Stepper, wanted: Iterable[Action]) -> bool:
        """A new leader makes itself known before it changes anything. False where the cluster refuses it: what is `wanted` waits."""
        generation, named = turn.generation, turn.named
        claimed = self._claimed[0] == generation and named <= self._claimed[1]
        waiting = waits(self._clock(), self._claim_from_ms, MAX_WAIT_S)
        if claimed and not self._has_newcomer(named):
            self._claimed_again = 0
            return True
        if claimed and waiting:
            return True
        if waiting:
            return False
        began = time.monotonic()
        try:
            self.cluster.claim(generation, named)
        except StaleLeaderError:
            raise
        except ClusterError as error:
            wait_s = getattr(error, "retry_after_s", CLAIM_AGAIN_S)
            self._claim_from_ms = self._clock() + int(wait_s * 1_000)
            if self._claiming.fails(error):
                log.warning("cluster.not_claimed", cluster=self.cluster.name, reason=str(error), retry_s=wait_s)
            for action in () if claimed else wanted:
                stepper.postpone(action, error, wait_s)
            return claimed
        self._claiming.works()
        self._claimed_again = self._claimed_again + 1 if claimed else 0
        if claimed:  # a watch shows a moment later that the newcomer was, unless its cluster refuses to mark it
            wait_s = doubled_s(CLAIM_AGAIN_S, self._claimed_again, MAX_WAIT_S)
            self._claim_from_ms = self._clock() + int(wait_s * 1_000)
        self._claimed = (generation, named)
        log.info("cluster.claimed", cluster=self.cluster.name, generation=generation, took_s=time.monotonic() - began)
        return True

    def _has_newcomer(self, named: Iterable[str]) -> bool:
        """Whether a workload was created since, or anew."""
        pools = self.cluster.seen().pools
        return any(name in pools and not pools[name].taken_on for name in named)
