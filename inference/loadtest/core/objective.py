"""What a load must keep: `p95 ttft <= 500ms`."""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from inference.loadtest.core.samples import CUT_SHORT, MEASURES, Sample
from inference.loadtest.core.schedule import duration_s

Measure = Literal["ttft", "tpot", "e2e"]
_FORM = re.compile(r"p(\d+(?:\.\d+)?)\s+(ttft|tpot|e2e)\s*(?:<=|<)\s*(\S+)", re.IGNORECASE)
_VALUES = {"ttft": MEASURES["ttft_from_due"], "tpot": MEASURES["tpot"], "e2e": MEASURES["e2e_from_due"]}


class Kept(msgspec.Struct):
    """An objective, and which share (0..1) of the requests was good by it; None where nothing was measured."""

    objective: str
    share: float | None
    kept: bool


class Objective(NamedTuple):
    """At least the share `target` (0..1) of requests must have `measure` within the threshold, from when they were due. A request that
    failed is bad.
    """

    measure: Measure
    target: float
    threshold_s: float

    def __str__(self) -> str:
        return f"p{self.target * 100:g} {self.measure} <= {self.threshold_s * 1000:g}ms"

    def value_s(self, sample: Sample) -> float | None:
        """None where the answer has no such measure."""
        return _VALUES[self.measure](sample)

    def good(self, sample: Sample) -> bool | None:
        """None where that is not known: the request was cut short, or its answer has no such measure."""
        if sample.failure:
            return None if sample.failure == CUT_SHORT else False
        value = self.value_s(sample)
        return None if value is None else value <= self.threshold_s

    def late(self, sample: Sample, now_s: float) -> bool:
        """Whether a request that is under way is bad already."""
        open_ = sample.ended_s is None and not sample.failure
        waits = self.measure == "e2e" or (self.measure == "ttft" and sample.first_s is None)
        return open_ and waits and now_s - sample.due_s > self.threshold_s

    def kept_by(self, samples: Sequence[Sample]) -> Kept:
        known = [good for sample in samples if (good := self.good(sample)) is not None]
        share = sum(known) / len(known) if known else None
        return Kept(str(self), share, share is not None and share >= self.target - 1e-12)


def parse(text: str) -> Objective:
    """Raises ValueError with the remedy."""
    match = _FORM.fullmatch(text.strip())
    if match is None or not 0 < float(match[1]) < 100:
        raise ValueError(
            f"{text!r} is no objective: write one such as 'p95 ttft <= 500ms'; measures are ttft, tpot and e2e"
        )
    measure: Measure = match[2].lower()  # type: ignore[assignment]
    return Objective(measure, float(match[1]) / 100, duration_s(match[3]))
