"""Requests to replay: out of a trace, or made from rates."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from forecasting.series import F64, Series

I32 = npt.NDArray[np.int32]

MAX_REQUESTS = 50_000_000
"""28 B of memory each in a replay."""


class ArrivalsError(ValueError):
    """The values cannot be arrivals. Permanent: the message names the field and what it must be."""


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """Requests in order of time: `arrival_s` counts from the start of the replay, lengths are in tokens."""

    arrival_s: F64
    input_tokens: I32
    output_tokens: I32

    def __post_init__(self) -> None:
        arrival_s = np.ascontiguousarray(self.arrival_s, dtype=np.float64)
        if arrival_s.ndim != 1 or not (len(arrival_s) == len(self.input_tokens) == len(self.output_tokens)):
            raise ArrivalsError(
                "arrival_s, input_tokens and output_tokens differ in length: give one of each per request"
            )
        if len(arrival_s) > MAX_REQUESTS:
            raise ArrivalsError(f"{len(arrival_s):,} requests are too many to replay: give at most {MAX_REQUESTS:,}")
        if len(arrival_s) and (not np.isfinite(arrival_s).all() or arrival_s[0] < 0 or (np.diff(arrival_s) < 0).any()):
            raise ArrivalsError("arrival_s goes back in time or is no number: give seconds from the start, in order")
        object.__setattr__(self, "arrival_s", arrival_s)
        for name in ("input_tokens", "output_tokens"):
            tokens = np.asarray(getattr(self, name))
            if len(tokens) and not (np.isfinite(tokens).all() and tokens.min() >= 0 and tokens.max() < 2**31):
                raise ArrivalsError(f"{name} has values below 0 or no numbers: give how many tokens each request has")
            object.__setattr__(self, name, np.ascontiguousarray(tokens, dtype=np.int32))

    def __len__(self) -> int:
        return len(self.arrival_s)


@dataclass(frozen=True, slots=True, eq=False)
class Lengths:
    """Lengths of prompts and answers as they come together: pairs, of which arrivals draw at random."""

    input_tokens: I32
    output_tokens: I32

    def __post_init__(self) -> None:
        if not len(self.input_tokens) or len(self.input_tokens) != len(self.output_tokens):
            raise ArrivalsError(
                "lengths are empty or differ in number: give one input and one output length per request"
            )

    @classmethod
    def around(cls, input_mean: float, output_mean: float, spread: float = 1.0) -> "Lengths":
        """Log-normal lengths of these means, independent of each other, for where only means are known.

        `spread` is the standard deviation of their logarithm; 0 makes all requests alike.
        """
        draw = np.random.default_rng(0).standard_normal((2, 10_000))
        shape = np.exp(spread * draw)
        shape /= shape.mean(axis=1, keepdims=True)
        tokens = np.maximum(1, np.rint(shape * [[input_mean], [output_mean]])).astype(np.int32)
        return cls(tokens[0], tokens[1])


def from_rates(rates: Series, lengths: Lengths, *, burstiness: float = 1.0, seed: int = 0) -> Arrivals:
    """Arrivals whose rate follows `rates`, in requests/s; a gap takes the rate between its neighbours.

    The intervals have the coefficient of variation `burstiness`: 1 is a Poisson process, 0 even spacing, and measured traffic of
    language models is often burstier (ServeGen, arXiv 2505.09999). They are gamma distributed, drawn at rate 1 and
    stretched by the inverse of the integrated rate (Çinlar, Introduction to Stochastic Processes, 1975, section 4.7).
    Equal seeds give equal arrivals. Raises ArrivalsError.
    """
    values = np.asarray(rates.values, dtype=np.float64)
    known = np.isfinite(values)
    if not known.any():
        raise ArrivalsError("rates have no measured value: give at least one step that is no gap")
    if (values[known] < 0).any():
        raise ArrivalsError("rates have values below 0: give requests per second, 0 or more")
    if not (np.isfinite(burstiness) and burstiness >= 0):
        raise ArrivalsError(f"burstiness is {burstiness}: give a coefficient of variation, 0 or more")
    steps = np.arange(len(values))
    values = np.interp(steps, steps[known], values[known])
    integrated = np.concatenate([[0.0], np.cumsum(values * rates.step_s)])
    total = float(integrated[-1])
    if total > MAX_REQUESTS:
        raise ArrivalsError(
            f"rates add up to {total:,.0f} requests, and at most {MAX_REQUESTS:,} can be replayed: give a shorter time or a share"
        )
    rng = np.random.default_rng(seed)
    parts: list[F64] = []
    reached = 0.0
    while reached < total:
        count = int((total - reached) + 5 * (burstiness + 1) * np.sqrt(total - reached) + 16)
        gaps = rng.gamma(1 / burstiness**2, burstiness**2, count) if burstiness > 0 else np.ones(count)
        part = reached + np.cumsum(gaps)
        parts.append(part)
        reached = float(part[-1])
    at = np.concatenate(parts) if parts else np.empty(0)
    at = at[at < total]
    # Steps without requests would give two times to the same integral: only the ends of steps where it grows are kept.
    grows = np.concatenate([[True], np.diff(integrated) > 0])
    ends_s = np.arange(len(integrated), dtype=np.float64) * rates.step_s
    starts = np.concatenate([np.flatnonzero(grows[1:]), []]).astype(np.int64)
    xp = np.ravel(np.column_stack([integrated[starts], integrated[starts + 1]]))
    fp = np.ravel(np.column_stack([ends_s[starts], ends_s[starts + 1]]))
    arrival_s = np.interp(at, xp, fp) if len(xp) else np.empty(0)
    drawn = rng.integers(0, len(lengths.input_tokens), len(arrival_s))
    return Arrivals(arrival_s, lengths.input_tokens[drawn], lengths.output_tokens[drawn])
