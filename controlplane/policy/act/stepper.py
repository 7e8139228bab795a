"""Takes actions one step further. Each step can be done again: the process may end before or after any of them."""

from collections.abc import Callable

import structlog
from prometheus_client import Counter, Histogram

from controlplane.core.backoff import doubled_s
from controlplane.core.formatting import TEXT
from controlplane.fleet.clusters.errors import (
    ClusterError,
    ConflictError,
    PermanentClusterError,
    RetryableClusterError,
    StaleLeaderError,
)
from controlplane.fleet.clusters.port import Cluster, PoolSeen
from controlplane.observability.tracing import span
from controlplane.policy.act import journal
from controlplane.policy.act.core.victims import ahead, present, victims
from controlplane.policy.act.journal import Fence, at
from controlplane.policy.core.words import replicas
from controlplane.policy.models import Action
from controlplane.policy.observe.core.traffic import Traffic

log = structlog.get_logger(__name__)

FIRST_RETRY_S, MAX_RETRY_S = 0.25, 15.0
NOTICED_AFTER_S = 5.0
"""A state of its cluster that was confirmed so long after it shows an accepted change."""
KINDS, STEPS = Action.Kind, Action.Step

ACTIONS = Counter("weir_policy_actions", "Actions by what became of them.", ["kind", "step"])
CALL_SECONDS = Histogram(
    "weir_policy_cluster_call_seconds",
    "Calls that change a cluster.",
    ["call"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)


def retry_in_s(error: RetryableClusterError, failures: int) -> float:
    """As late as the cluster says, and later the more often it failed in a row."""
    return max(error.retry_after_s, doubled_s(FIRST_RETRY_S, failures, MAX_RETRY_S))


class Stepper:
    """Of one leader, for one cluster."""

    def __init__(
        self,
        cluster: Cluster,
        traffic: Callable[[], Traffic],
        endpoints_version: Callable[[], int | None],
        fence: Fence,
        generation: int,
        now_ms: Callable[[], int],
    ) -> None:
        self._cluster, self._traffic, self._endpoints_version = cluster, traffic, endpoints_version
        self._fence, self._generation, self._now_ms = fence, generation, now_ms

    def advance(self, action: Action) -> bool:
        """Do the action's next step; False where there is none to do now. Raises LeaseLostError, StaleLeaderError."""
        now_ms = self._now_ms()
        if action.ended_at is not None or (action.retry_at is not None and at(now_ms) < action.retry_at):
            return False
        try:
            with span(
                "policy action", parent=action.traceparent, pool=action.pool, action=action.kind, step=action.step
            ):
                return self._step(action, now_ms)
        except StaleLeaderError:
            raise
        except RetryableClusterError as error:
            self.postpone(action, error, retry_in_s(error, action.attempts + 1))
            return False
        except PermanentClusterError as error:
            log.error("action.refused", pool=action.pool, step=action.step, reason=str(error))  # noqa: TRY400  (the reason is all)
            return self._end(action, STEPS.FAILED, _refusal(action, error))

    def postpone(self, action: Action, error: ClusterError, wait_s: float) -> None:
        """Try its next step again later."""
        why = f"{str(error).rstrip('.')}; tried again in {wait_s:.3g} s"
        journal.postpone(action, self._now_ms(), wait_s, why, self._fence)
        log.warning("action.postponed", pool=action.pool, step=action.step, reason=str(error), retry_s=wait_s)

    def give_up(self, action: Action, why: str) -> bool:
        """End an action that the cluster has not accepted. Its replicas get requests again."""
        return self._end(action, STEPS.ABANDONED, why)

    def settle(self, action: Action) -> None:
        """Say what became of an accepted action, once that is known."""
        seen, now_ms = self._seen(action), self._now_ms()
        is_shown = (self._cluster.seen().seen_ms or 0) / 1_000 - action.step_at.timestamp() >= NOTICED_AFTER_S
        if seen is None or seen.wanted is None:
            if is_shown:
                why = f"The workload of {action.pool} is no longer there"
                journal.lose(action, why, now_ms, self._generation, self._fence)
            return
        here = present(seen)
        after_s = now_ms / 1_000 - action.started_at.timestamp()
        is_floor = action.kind == KINDS.FLOOR
        name, count = ("floor", _floor(seen)) if is_floor else ("count", seen.wanted)
        if count != action.after:
            if not is_shown:
                return
            now = "gone" if count is None else count
            self._end(action, STEPS.DONE, f"The {name} is {now} by now: it was changed again.")
        elif action.kind == KINDS.DOWN and len(here) <= action.after:
            stayed = sorted(set(action.replicas) & {replica.name for replica in here})
            others = f" {', '.join(stayed)} was drained and stayed: the cluster removed another one." if stayed else ""
            self._end(action, STEPS.DONE, f"{_are(len(here))} left, {after_s:.3g} s after the decision.{others}")
        elif is_floor:
            self._end(action, STEPS.DONE, f"The autoscaler keeps at least {replicas(action.after)}.")
        elif action.kind == KINDS.UP and sum(replica.ready for replica in here) >= action.after:
            self._end(action, STEPS.DONE, f"{_are(action.after)} ready, {after_s:.3g} s after the decision.")

    def _step(self, action: Action, now_ms: int) -> bool:
        seen = self._seen(action)
        if seen is None or seen.wanted is None:
            return False  # the cluster has said nothing yet
        if action.kind == KINDS.FLOOR:
            with CALL_SECONDS.labels("raise_floor").time():
                self._cluster.raise_floor(action.pool, action.after, generation=self._generation)
            return self._accepted(action, seen.token, now_ms)
        if seen.wanted == action.after:
            return self._accepted(action, seen.token, now_ms)  # by a process that ended before it wrote so
        if seen.wanted != action.before:
            return self.give_up(
                action, f"The count is {seen.wanted} and was {action.before}: somebody else changed it."
            )
        if action.kind == KINDS.UP:
            return self._scale(action, seen, now_ms)
        if action.step == STEPS.PLANNED:
            return self._choose(action, seen, now_ms)
        if missing := sorted(set(action.replicas) - {replica.name for replica in present(seen)}):
            return self.give_up(action, f"{', '.join(missing)} ended by itself: the pool is judged anew.")
        first = ahead(seen, action.replicas)
        if first and action.step != STEPS.DRAINING:
            text = f"{', '.join(first)} is no longer ready, and would be removed in its place: the pool is judged anew."
            return self.give_up(action, text)
        match action.step:
            case STEPS.DRAINING:
                return self._drained(action, now_ms)
            case STEPS.DRAINED:
                with CALL_SECONDS.labels("prefer_removal").time():
                    self._cluster.prefer_removal(action.pool, list(action.replicas), generation=self._generation)
                return self._move(action, STEPS.PREFERRED, now_ms)
            case STEPS.PREFERRED:
                return self._scale(action, seen, now_ms)
        return False

    def _choose(self, action: Action, seen: PoolSeen, now_ms: int) -> bool:
        """The replicas that go get no new requests from now on. One that is not ready may have requests all the same."""
        here = present(seen)
        if seen.wanted is not None and len(here) > seen.wanted:  # which of them go then is not for Weir to say
            text = f"{len(here)} replicas are there and {seen.wanted} are wanted: a rollout or a removal is under way"
            raise ConflictError(text, 0.25)
        traffic = self._traffic()
        chosen = victims(seen, len(here) - action.after, lambda name: traffic.in_flight_at(action.pool, name))
        serving = [each.name for each in chosen if each.ready or traffic.in_flight_at(action.pool, each.name) != 0]
        names = [replica.name for replica in chosen]
        if not serving or action.pool.startswith("gateway:"):  # a gateway ends its own requests before it ends
            return self._move(action, STEPS.DRAINED, now_ms, replicas=names)
        return self._move(action, STEPS.DRAINING, now_ms, replicas=names)

    def _drained(self, action: Action, now_ms: int) -> bool:
        """Whether every gateway obeys endpoints without these replicas, and has nothing in flight at them."""
        if action.endpoints_version is None:
            version = self._endpoints_version()
            return version is not None and self._move(action, STEPS.DRAINING, now_ms, endpoints_version=version)
        traffic = self._traffic()
        since_ms = int(action.step_at.timestamp() * 1_000)
        if traffic.obeys(action.endpoints_version, since_ms):
            left = {name: traffic.in_flight_at(action.pool, name) for name in action.replicas}
            if all(count == 0 for count in left.values()):
                return self._move(action, STEPS.DRAINED, now_ms)
            why = ", ".join(
                f"{name} has {TEXT.counted(round(count), 'request')}" for name, count in left.items() if count
            )
        else:
            why = "not every gateway has said that it obeys the endpoints without them"
        if at(now_ms) >= action.deadline_at:
            return self.give_up(action, f"The replicas were not empty in time: {why}. They get requests again.")
        return False

    def _scale(self, action: Action, seen: PoolSeen, now_ms: int) -> bool:
        try:
            with CALL_SECONDS.labels("scale").time():
                token = self._cluster.scale(action.pool, action.after, token=seen.token, generation=self._generation)
        except ConflictError as error:
            error.retry_after_s = min(error.retry_after_s, 0.1)  # look again at once: a status may have changed
            raise
        return self._accepted(action, token, now_ms)

    def _accepted(self, action: Action, token: str, now_ms: int) -> bool:
        """From now on another action may begin; what becomes of this one is said later."""
        now = at(now_ms)
        after_s = now_ms / 1_000 - action.started_at.timestamp()
        outcome = f"The cluster has accepted it, {after_s:.3g} s after the decision, and carries it out."
        done = self._move(action, STEPS.ACCEPTED, now_ms, accepted_at=now, ended_at=now, token=token, outcome=outcome)
        if done:
            ACTIONS.labels(action.kind, STEPS.ACCEPTED).inc()
        return done

    def _move(self, action: Action, step: str, now_ms: int, **changes: object) -> bool:
        return journal.move(action, step, now_ms, self._generation, self._fence, **changes)

    def _end(self, action: Action, step: str, outcome: str) -> bool:
        ended = journal.end(action, step, outcome, self._now_ms(), self._generation, self._fence)
        if ended:
            ACTIONS.labels(action.kind, step).inc()
        return ended

    def _seen(self, action: Action) -> PoolSeen | None:
        return self._cluster.seen().pools.get(action.pool)


def _refusal(action: Action, error: PermanentClusterError) -> str:
    again = f"asked for again in {TEXT.duration(journal.refused_for_s(action))}"
    then = f"Its replicas get requests again; it is {again}" if action.replicas else f"It is {again}"
    return f"The cluster refused it: {str(error).rstrip('.')}. {then}."


def _are(count: int) -> str:
    return f"{replicas(count)} {'is' if count == 1 else 'are'}"


def _floor(seen: PoolSeen) -> int | None:
    return seen.autoscaler.min_replicas if seen.autoscaler is not None else None
