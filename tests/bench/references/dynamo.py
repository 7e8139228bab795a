"""NVIDIA Dynamo's planner: the predicted load of the next interval over what an engine carries within its targets.

github.com/ai-dynamo/dynamo, components/src/dynamo/planner: core/throughput_scaling.py (_throughput_agg), core/perf_model/agg.py
(find_best_engine_agg_rps), core/load/predictors.py, with the defaults of config/defaults.py: a decision every 180 s, TTFT 500 ms and
ITL 50 ms where the objective has none. The regression of a pass's time that it learns is taken from the replica's profile.
Its default predictor, an ARIMA of pmdarima, is not here: `kalman`, `prophet` and `constant` are the others that it has.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil
from typing import Literal, Protocol

import numpy as np

from forecasting.simulate.arrivals import Arrivals
from forecasting.simulate.outcome import Objective
from forecasting.simulate.policy import Observation
from forecasting.simulate.profile import ReplicaProfile

DEFAULT_TTFT_S, DEFAULT_ITL_S = 0.5, 0.05
PREFILL_TOKENS = 8192
"""vLLM's max_num_batched_tokens."""
MAX_BATCH = 1024
PROPHET_WINDOW = 50
"""Steps: two and a half hours of 180 s."""
MIN_POINTS = 5

Predictor = Literal["constant", "kalman", "prophet"]


class _Predicts(Protocol):
    def add(self, value: float) -> None: ...

    def next(self) -> float: ...


class _Constant:
    """The last value. Zeros before the first traffic are skipped, by every predictor."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.count = 0

    def add(self, value: float) -> None:
        if value or self.values:
            self.values = [*self.values[1 - PROPHET_WINDOW :], value]
            self.count += 1

    def next(self) -> float:
        return self.values[-1] if self.values else 0.0


class _Kalman(_Constant):
    """KalmanPredictor: level and trend, with q_level 1, q_trend 0.1, r 10."""

    _STEP = np.array([[1.0, 1.0], [0.0, 1.0]])
    _DRIFT = np.diag([1.0, 0.1])
    _NOISE = 10.0

    def __init__(self) -> None:
        super().__init__()
        self._state = np.zeros(2)
        self._spread = np.eye(2) * 1000.0
        self._predicted = False

    def add(self, value: float) -> None:
        first = not self.values
        super().add(value)
        if not self.values:
            return
        if first:
            self._state = np.array([value, 0.0])
        else:
            self._predict()
            gain = self._spread[:, 0] / (self._spread[0, 0] + self._NOISE)
            self._state = self._state + gain * (value - self._state[0])
            self._spread = self._spread - np.outer(gain, self._spread[0])
        self._predicted = False

    def _predict(self) -> None:
        if not self._predicted:
            self._state = self._STEP @ self._state
            self._spread = self._STEP @ self._spread @ self._STEP.T + self._DRIFT
            self._predicted = True

    def next(self) -> float:
        if not self.values:
            return 0.0
        self._predict()
        return float(self._state[0])


class _Prophet(_Constant):
    """ProphetPredictor: the last 50 points on a calendar that begins on 1 January 2024, whatever the day; a step ahead."""

    def __init__(self, step_s: float) -> None:
        super().__init__()
        self._step_s = step_s

    def next(self) -> float:
        if len(self.values) < MIN_POINTS:
            return super().next()
        import pandas as pd
        from prophet import Prophet

        at = [datetime(2024, 1, 1) + timedelta(seconds=step * self._step_s) for step in range(self.count + 1)]
        model = Prophet()
        model.fit(pd.DataFrame({"ds": at[-1 - len(self.values) : -1], "y": self.values}))
        return max(0.0, float(model.predict(pd.DataFrame({"ds": at[-1:]}))["yhat"].iloc[0]))


@dataclass(slots=True)
class Dynamo:
    """Throughput scaling of an aggregated engine. With `prophet` each decision takes three fits, some 0.1 s each."""

    profile: ReplicaProfile
    objective: Objective
    predictor: Predictor = "kalman"
    tick_s: float = 180.0
    _predictors: tuple[_Predicts, ...] = field(default_factory=tuple)

    @property
    def name(self) -> str:
        return f"dynamo ({self.predictor})"

    def begin(self, arrivals: Arrivals, replicas: int) -> None:
        self._predictors = tuple(self._new_predictor() for _ in range(3))

    def _new_predictor(self) -> _Predicts:
        if self.predictor == "prophet":
            return _Prophet(self.tick_s)
        return _Kalman() if self.predictor == "kalman" else _Constant()

    def decide(self, seen: Observation) -> int:
        if not seen.arrived:
            return seen.wanted  # without valid metrics it skips the adjustment
        means = (seen.arrived, seen.input_tokens / seen.arrived, seen.output_tokens / seen.arrived)
        for predictor, value in zip(self._predictors, means, strict=True):
            predictor.add(value)
        requests, input_tokens, output_tokens = (predictor.next() for predictor in self._predictors)
        capacity_rps = self.capacity_rps(input_tokens, output_tokens)
        return ceil(requests / seen.window_s / capacity_rps) if capacity_rps > 0 else seen.wanted

    def capacity_rps(self, input_tokens: float, output_tokens: float) -> float:
        """The rate that an engine carries at the largest batch which keeps both targets; that of a single request where none does."""
        if input_tokens <= 0 or output_tokens <= 0:
            return 0.0
        profile = self.profile
        most_tokens = PREFILL_TOKENS
        balanced = int(most_tokens - input_tokens / output_tokens)  # prompts come in as fast as answers leave
        most = max(1, min(MAX_BATCH, profile.max_sequences, most_tokens - 1, balanced))
        batch = np.arange(1, most + 1)
        read = np.minimum(batch * input_tokens / max(1.0, output_tokens), most_tokens)
        step_s = profile.step_s + profile.step_sequence_s * batch
        pass_s = step_s + profile.prefill_token_s * read
        queued = np.floor(read) + input_tokens
        ttft_s = np.ceil(queued / most_tokens) * step_s + profile.prefill_token_s * queued
        kept = (pass_s <= (self.objective.itl_s or DEFAULT_ITL_S)) & (
            ttft_s <= (self.objective.ttft_s or DEFAULT_TTFT_S)
        )
        largest = most if kept.all() else max(1, int(np.argmin(kept)))
        return float(largest / (output_tokens * pass_s[largest - 1]))
