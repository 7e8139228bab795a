"""Knative's pod autoscaler (KPA), on concurrency.

github.com/knative/serving, pkg/autoscaler/scaling/autoscaler.go (Scale), with the defaults of config/core/configmaps/autoscaler.yaml: a
stable window of 60 s, a panic window of 10 % of it, panic at 200 % of what the ready pods should have, at most 1,000 times as many or
half as many pods at once, a decision every 2 s.
"""

from collections import deque
from dataclasses import dataclass, field
from math import ceil, floor

from forecasting.simulate.arrivals import Arrivals
from forecasting.simulate.policy import Observation


@dataclass(slots=True)
class Kpa:
    """`target_in_flight` is the wanted concurrency per replica: Knative's target × its utilisation, by default 100 × 70 %."""

    target_in_flight: float = 70.0
    tick_s: float = 2.0
    stable_window_s: float = 60.0
    panic_window_s: float = 6.0
    panic_threshold: float = 2.0
    max_scale_up_rate: float = 1000.0
    max_scale_down_rate: float = 2.0
    name: str = "kpa"
    _stable: deque[float] = field(default_factory=deque)
    _panic: deque[float] = field(default_factory=deque)
    _stable_sum: float = 0.0
    _panic_since_s: float | None = None
    _most_in_panic: int = 0

    def begin(self, arrivals: Arrivals, replicas: int) -> None:
        """Knative begins in panic where there is more than a pod, so that it does not scale down before it has seen traffic."""
        self._stable = deque(maxlen=max(1, round(self.stable_window_s / self.tick_s)))
        self._panic = deque(maxlen=max(1, round(self.panic_window_s / self.tick_s)))
        self._stable_sum = 0.0
        self._panic_since_s = 0.0 if replicas > 1 else None
        self._most_in_panic = replicas if replicas > 1 else 0

    def decide(self, seen: Observation) -> int:
        stable, panic = self._concurrency(seen.in_flight)
        ready = max(1, seen.ready)
        most = ceil(self.max_scale_up_rate * ready)
        least = floor(ready / self.max_scale_down_rate)
        for_panic = ceil(panic / self.target_in_flight)
        replicas = min(max(ceil(stable / self.target_in_flight), least), most)
        if for_panic / ready >= self.panic_threshold:
            self._panic_since_s = seen.time_s
        elif self._panic_since_s is not None and self._panic_since_s + self.stable_window_s < seen.time_s:
            self._panic_since_s = None
            self._most_in_panic = 0
        if self._panic_since_s is None:
            return replicas
        replicas = max(replicas, min(max(for_panic, least), most))
        self._most_in_panic = max(self._most_in_panic, replicas)
        return self._most_in_panic

    def _concurrency(self, in_flight: float) -> tuple[float, float]:
        """Means over the stable and the panic window."""
        if len(self._stable) == self._stable.maxlen:
            self._stable_sum -= self._stable[0]
        self._stable_sum += in_flight
        self._stable.append(in_flight)
        self._panic.append(in_flight)
        return max(0.0, self._stable_sum / len(self._stable)), sum(self._panic) / len(self._panic)
