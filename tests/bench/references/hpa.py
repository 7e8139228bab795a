"""Kubernetes' Horizontal Pod Autoscaler, on the requests in flight per pod.

github.com/kubernetes/kubernetes, pkg/controller/podautoscaler: replica_calculator.go (calcPlainMetricReplicas, metric type Pods) and
horizontal.go (stabilizeRecommendationWithBehaviors, convertDesiredReplicasWithBehaviorRate), with the defaults of
pkg/apis/autoscaling/v2/defaults.go: within 15 s at most 100 % or 4 pods more, whichever is more, and at most 100 % fewer, but
no fewer than any recommendation of the last 300 s. The controller looks every 15 s and leaves a deviation of 10 % alone.
"""

from collections import deque
from dataclasses import dataclass, field
from math import ceil

from forecasting.simulate.arrivals import Arrivals
from forecasting.simulate.policy import Observation

_POLICY_PERIOD_S = 15.0


@dataclass(slots=True)
class Hpa:
    """`target_in_flight` is the wanted mean of requests in flight per replica (`averageValue`)."""

    target_in_flight: float
    tick_s: float = 15.0
    tolerance: float = 0.1
    scale_down_window_s: float = 300.0
    name: str = "hpa"
    _recommended: deque[tuple[float, int]] = field(default_factory=deque)
    _added: deque[tuple[float, int]] = field(default_factory=deque)

    def begin(self, arrivals: Arrivals, replicas: int) -> None:
        self._recommended.clear()
        self._added.clear()

    def decide(self, seen: Observation) -> int:
        recommended = self._recommend(seen)
        return self._limit_rate(seen, self._stabilise(seen, recommended))

    def _recommend(self, seen: Observation) -> int:
        """calcPlainMetricReplicas: starting pods have no metric yet, and count as idle going up and as on target going down."""
        if seen.ready == 0:
            return seen.wanted  # "did not receive metrics for any ready pods"
        ratio = seen.in_flight / seen.ready / self.target_in_flight
        pods = seen.ready + seen.starting
        if seen.starting:
            assumed = seen.starting if ratio < 1 else 0
            before, ratio = ratio, (seen.in_flight / self.target_in_flight + assumed) / pods
            if (before < 1) != (ratio < 1):
                return seen.wanted
        if abs(1 - ratio) <= self.tolerance:
            return seen.wanted
        replicas = ceil(ratio * pods)
        turned = replicas > seen.wanted if ratio < 1 else replicas < seen.wanted
        return seen.wanted if seen.starting and turned else replicas

    def _stabilise(self, seen: Observation, recommended: int) -> int:
        self._recommended.append((seen.time_s, recommended))
        while self._recommended[0][0] <= seen.time_s - self.scale_down_window_s:
            self._recommended.popleft()
        if recommended >= seen.wanted:
            return recommended
        return min(seen.wanted, max(count for _, count in self._recommended))

    def _limit_rate(self, seen: Observation, replicas: int) -> int:
        """Going down has no limit that binds: all of them within 15 s."""
        while self._added and self._added[0][0] <= seen.time_s - _POLICY_PERIOD_S:
            self._added.popleft()
        if replicas <= seen.wanted:
            return replicas
        before = seen.wanted - sum(count for _, count in self._added)
        most = max(2 * before, before + 4, seen.wanted)
        replicas = min(replicas, most)
        if replicas > seen.wanted:
            self._added.append((seen.time_s, replicas - seen.wanted))
        return replicas
