"""What became of a request, and the figures of many. Times are seconds since the load's start; figures are milliseconds."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import numpy as np

CUT_SHORT = "cut_short"
"""The failure of a request that was under way when the run was ended: it is no fault of the server's."""
CLIENT_LIMIT = "client_limit"
"""The failure of a request that this machine could not send: it had no more sockets or ports."""


class Sample(msgspec.Struct):
    """A request. None: that has not happened. Token counts are -1 where the server does not say. `chunks` carried text; `first_s` and
    `last_s` are of the first and the last of them. `failure` is its kind, empty where the answer came whole; `said` explains it.
    """

    number: int
    due_s: float
    wanted_tokens: int = 0
    turn: int = 0
    sent_s: float | None = None
    first_s: float | None = None
    last_s: float | None = None
    ended_s: float | None = None
    status: int = 0
    chunks: int = 0
    input_tokens: int = -1
    cached_tokens: int = -1
    output_tokens: int = -1
    longest_gap_s: float = 0.0
    failure: str = ""
    said: str = ""

    @property
    def good(self) -> bool:
        return self.ended_s is not None and not self.failure


Value = Callable[[Sample], float | None]


def _from(later: str, earlier: str) -> Value:
    def value(sample: Sample) -> float | None:
        end, begin = getattr(sample, later), getattr(sample, earlier)
        return None if end is None or begin is None else end - begin

    return value


def tpot_s(sample: Sample) -> float | None:
    """Time per output token after the first: by the server's count of tokens, and unknown where it does not count."""
    if sample.first_s is None or sample.last_s is None or sample.output_tokens < 2 or sample.chunks < 2:
        return None
    return (sample.last_s - sample.first_s) / (sample.output_tokens - 1)


MEASURES: dict[str, Value] = {
    "ttft_from_due": _from("first_s", "due_s"),
    "ttft_from_sent": _from("first_s", "sent_s"),
    "e2e_from_due": _from("ended_s", "due_s"),
    "e2e_from_sent": _from("ended_s", "sent_s"),
    "tpot": tpot_s,
}
"""Of a request, seconds."""
SEND_LAG: Value = _from("sent_s", "due_s")

Figures = dict[str, float | int]


def values(samples: Iterable[Sample], measure: Value) -> list[float]:
    """Of good requests that have such a measure, in seconds."""
    return [value for sample in samples if sample.good and (value := measure(sample)) is not None]


def figures_ms(seconds: "Sequence[float] | np.ndarray[Any, Any]") -> Figures | None:
    """Mean, percentiles (nearest rank: each is a time that was measured) and maximum; None where nothing was measured."""
    if not len(seconds):
        return None
    ordered = np.sort(np.asarray(seconds, dtype=np.float64)) * 1000
    shares = {f"p{percent}": ordered[rank(len(ordered), percent / 100)] for percent in (50, 90, 95, 99)}
    every = {"mean": ordered.mean(), **shares, "max": ordered[-1]}
    return {"count": len(ordered)} | {name: round(float(value), 3) for name, value in every.items()}


def rank(count: int, share: float) -> int:
    """The index of the percentile in ordered values."""
    return min(count - 1, max(0, math.ceil(share * count - 1e-9) - 1))


def failures(samples: Iterable[Sample]) -> dict[str, int]:
    """How often each kind of failure came, the most frequent first."""
    return dict(Counter(sample.failure for sample in samples if sample.failure).most_common())


def of_tokens(counts: Sequence[int]) -> dict[str, float | int | None]:
    """Tokens as the server counts them. `known` answers had a count; None where none had."""
    known = [count for count in counts if count >= 0]
    return {
        "known": len(known),
        "sum": sum(known) if known else None,
        "mean": round(sum(known) / len(known), 2) if known else None,
    }
