"""Judges the requests of a benchmark's step by latency objectives."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from forecasting.capacity.benchmark import BenchmarkStep, StepLength
from inference.contract.benchmark_messages import Sample

Measure = Literal["ttft", "itl", "e2e"]
_WORDS = {"ttft": "TTFT", "itl": "ITL", "e2e": "E2E"}


@dataclass(frozen=True, slots=True)
class Criterion:
    """At least the share `target` (0..1) of requests must have `measure` at most `threshold_s`."""

    measure: Measure
    threshold_s: float
    target: float
    objective: str = ""  # its slug; empty: entered for the benchmark

    def __str__(self) -> str:
        words = f"{_WORDS[self.measure]} at most {self.threshold_s * 1000:g} ms for {self.target * 100:g} %"
        return f"{words} ({self.objective})" if self.objective else words

    def good(self, sample: Sample, now_s: float) -> bool | None:
        """None while that is not known, or where the answer has no such measure."""
        if sample.busy:
            return False
        value = self._value_s(sample)
        if value is not None:
            return value <= self.threshold_s
        if self.measure != "itl" and sample.ended_s is None and now_s - sample.arrived_s > self.threshold_s:
            return False
        return None

    def _value_s(self, sample: Sample) -> float | None:
        if self.measure == "ttft":
            return None if sample.first_s is None else sample.first_s - sample.arrived_s
        if sample.ended_s is None:
            return None
        if self.measure == "e2e":
            return sample.ended_s - sample.arrived_s
        if sample.first_s is None or sample.output_tokens < 2:
            return None
        return (sample.ended_s - sample.first_s) / (sample.output_tokens - 1)


@dataclass(frozen=True, slots=True)
class StepFigures:
    """What a step has measured. `share` is that of good requests by the criterion that was kept least. Times are lower bounds where a
    request was not answered before the step ended. `batch` is the mean number of requests at the replica.
    """

    requests_per_s: float
    sent: int
    judged: int
    good: int
    kept: bool
    quick: bool
    p95_ttft_s: float | None
    p95_e2e_s: float | None
    batch: float
    input_tokens: float | None
    output_tokens: float | None
    busy: int
    took_s: float
    measured_rps: float

    @property
    def share(self) -> float:
        return self.good / self.judged if self.judged else 0.0

    def to_step(self) -> BenchmarkStep:
        return BenchmarkStep(self.requests_per_s, self.judged, self.good, self.kept, self.quick)


def is_lost(samples: Iterable[Sample], criteria: Sequence[Criterion], length: StepLength, now_s: float) -> bool:
    """Whether so many requests are bad already that the rest of the step cannot make up for them."""
    judged = _judged(samples, length)
    return any(
        sum(criterion.good(sample, now_s) is False for sample in judged)
        > math.floor(length.judged * (1 - criterion.target) + 1e-9)
        for criterion in criteria
    )


def alone_fault(samples: Sequence[Sample], criteria: Sequence[Criterion], now_s: float) -> str:
    """Why a benchmark is of no use: requests that were alone at the replica were bad, every one. Else empty."""
    for criterion in criteria:
        if all(criterion.good(sample, now_s) is False for sample in samples):
            return f"Even requests that were alone at the replica did not keep the objective: {criterion}."
    return ""


def figures(
    rate: float, samples: Sequence[Sample], criteria: Sequence[Criterion], length: StepLength, now_s: float, cut: bool
) -> StepFigures:
    """Of all samples of a step that has ended after `now_s`; `cut` where it was ended because it was lost.

    What is not answered at the end of a whole step is bad; of a step that was cut it is not judged.
    """
    judged = _judged(samples, length)
    counts = []
    for criterion in criteria:
        outcomes = [criterion.good(sample, now_s) for sample in judged]
        open_bad = 0 if cut else sum(o is None and s.ended_s is None for o, s in zip(outcomes, judged, strict=True))
        good, bad = sum(o is True for o in outcomes), sum(o is False for o in outcomes) + open_bad
        counts.append((good, good + bad, criterion))
    worst = min(counts, key=lambda count: count[0] / count[1] - count[2].target if count[1] else 0.0)
    arrived = [sample.arrived_s for sample in judged]
    span_s = max(arrived) - min(arrived) if len(arrived) > 1 else 0.0
    return StepFigures(
        requests_per_s=rate,
        sent=len(samples),
        judged=worst[1],
        good=worst[0],
        kept=not cut and all(judged_ and good >= criterion.target * judged_ for good, judged_, criterion in counts),
        quick=length.quick,
        p95_ttft_s=_p95([(s.first_s or s.ended_s or now_s) - s.arrived_s for s in judged if not s.busy]),
        p95_e2e_s=_p95([(s.ended_s or now_s) - s.arrived_s for s in judged if not s.busy]),
        batch=_batch(samples, min(arrived), max(arrived)) if span_s else 0.0,
        input_tokens=_mean([s.input_tokens for s in judged if s.ended_s is not None and s.input_tokens >= 0]),
        output_tokens=_mean([s.output_tokens for s in judged if s.ended_s is not None and s.output_tokens >= 0]),
        busy=sum(bool(sample.busy) for sample in samples),
        took_s=now_s,
        measured_rps=(len(arrived) - 1) / span_s if span_s else rate,
    )


def _judged(samples: Iterable[Sample], length: StepLength) -> list[Sample]:
    return [sample for sample in samples if sample.number >= length.warm_in]


def _batch(samples: Iterable[Sample], from_s: float, to_s: float) -> float:
    """The mean number of requests at the replica in that time."""
    inside = (
        max(0.0, min(to_s, to_s if sample.ended_s is None else sample.ended_s) - max(from_s, sample.sent_s))
        for sample in samples
        if sample.sent_s is not None
    )
    return sum(inside) / (to_s - from_s)


def _p95(values: Sequence[float]) -> float | None:
    return sorted(values)[math.ceil(0.95 * len(values)) - 1] if values else None


def _mean(values: Sequence[int]) -> float | None:
    return sum(values) / len(values) if values else None
