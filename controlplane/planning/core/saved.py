"""What requests that the cache answered would have taken: time, tokens, GPU time and money.

A figure is of the requests of which it is known, and says of how many it is not.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from controlplane.telemetry.core.cache_rows import CacheRow
from controlplane.telemetry.core.query_types import FROM_CACHE
from forecasting.capacity.assumptions import ReplicaCapacity
from forecasting.capacity.demand_on_pools import size_of

WITHOUT_WAITING = ("hit", "semantic")
"""Outcomes that save time too: who joined another request's inference waits for it."""


@dataclass(frozen=True, slots=True)
class Price:
    """USD of 1,000 tokens."""

    prompt: float
    output: float


@dataclass(slots=True)
class Sum:
    """`value` is of all requests but `unknown` ones; None where it is known of none."""

    value: float | None = None
    unknown: int = 0

    def add(self, value: float | None, requests: int) -> None:
        if value is None:
            self.unknown += requests
        else:
            self.value = (self.value or 0.0) + value

    def __add__(self, other: "Sum") -> "Sum":
        both = [it.value for it in (self, other) if it.value is not None]
        return Sum(sum(both) if both else None, self.unknown + other.unknown)


@dataclass(slots=True)
class Saved:
    """By the requests of a model that followed one routing rule. `requests` are by outcome, and all else is of those that the cache or
    another request answered. `gpu_at_most`: of a replica that may carry more than it was seen to.
    """

    model: str
    rule: str
    requests: Counter[str] = field(default_factory=Counter)
    answered: int = 0
    ms: Sum = field(default_factory=Sum)
    prompt_tokens: Sum = field(default_factory=Sum)
    output_tokens: Sum = field(default_factory=Sum)
    gpu_s: Sum = field(default_factory=Sum)
    usd: Sum = field(default_factory=Sum)
    gpu_at_most: bool = False

    @property
    def total(self) -> int:
        return self.requests.total()

    @property
    def share(self) -> float | None:
        """Of its requests, those that were not sent to a replica."""
        return sum(self.requests[outcome] for outcome in FROM_CACHE) / self.total if self.total else None


def saved(
    rows: Collection[CacheRow], capacities: Mapping[str, ReplicaCapacity], prices: Mapping[str, Price]
) -> list[Saved]:
    """Those of the most requests first. `capacities` and `prices` are by pool: that which would have answered."""
    usual_ns = _usual_ns(rows)
    by_rule: dict[tuple[str, str], Saved] = {}
    for row in rows:
        into = by_rule.setdefault((row.model, row.rule), Saved(row.model, row.rule))
        into.requests[row.outcome] += row.requests
        if row.outcome in FROM_CACHE and row.answered:
            _add(into, row, usual_ns.get(_alike(row)), capacities.get(row.pool), prices.get(row.pool))
    return sorted(by_rule.values(), key=lambda it: (-it.total, it.model, it.rule))


def altogether(rows: Iterable[Saved]) -> Saved:
    whole = Saved("", "")
    for row in rows:
        whole.requests += row.requests
        whole.answered += row.answered
        whole.gpu_at_most |= row.gpu_at_most
        for name in ("ms", "prompt_tokens", "output_tokens", "gpu_s", "usd"):
            setattr(whole, name, getattr(whole, name) + getattr(row, name))
    return whole


def _alike(row: CacheRow) -> tuple[str, str, int]:
    return row.model, row.operation, row.length


def _usual_ns(rows: Iterable[CacheRow]) -> dict[tuple[str, str, int], float]:
    """How long answers that replicas made took, in the mean, by model, operation and length."""
    sums: dict[tuple[str, str, int], list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        if row.outcome not in FROM_CACHE:
            into = sums[_alike(row)]
            into[0] += row.e2e_ns
            into[1] += row.answered
    return {alike: total / answered for alike, (total, answered) in sums.items() if answered}


def _add(
    into: Saved, row: CacheRow, usual_ns: float | None, capacity: ReplicaCapacity | None, price: Price | None
) -> None:
    answered, uncounted = row.answered, row.answered - row.counted
    into.answered += answered
    if row.outcome in WITHOUT_WAITING:
        into.ms.add(None if usual_ns is None else (answered * usual_ns - row.e2e_ns) / 1e6, answered)
    for total, tokens in ((into.prompt_tokens, row.prompt_tokens), (into.output_tokens, row.output_tokens)):
        total.add(float(tokens) if row.counted else None, row.counted or answered)
        total.unknown += uncounted if row.counted else 0
    into.gpu_s.add(None, row.begun)  # what a server did until the hit is not known
    if row.begun < answered:
        into.gpu_s.add(None if capacity is None else gpu_s(row, capacity), answered - row.begun)
    into.gpu_at_most |= capacity is not None and capacity.lower_bound
    priced = price is not None and row.counted
    usd = (row.prompt_tokens * price.prompt + row.output_tokens * price.output) / 1000 if price and priced else None
    into.usd.add(usd, row.counted if priced else answered)
    into.usd.unknown += uncounted if priced else 0


def gpu_s(row: CacheRow, capacity: ReplicaCapacity) -> float:
    """GPU time of as many requests as were answered and had not begun, by the rate that a replica was measured at. Where their tokens are
    not known, they are as those that were measured.
    """
    inputs, outputs = (
        (tokens / row.counted if row.counted else None) for tokens in (row.prompt_tokens, row.output_tokens)
    )
    size = size_of(inputs, outputs, capacity)
    return (row.answered - row.begun) * size * capacity.gpus_per_replica / capacity.requests_per_s
