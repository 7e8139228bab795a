"""What a replica carries at its objective, and how long it takes to start, as measured."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from forecasting.capacity.assumptions import ColdStart, ReplicaCapacity, TokenMix
from forecasting.series import F64, I64

BIN_RATIO = 1.1
"""Loads within 10 % of each other are judged together."""
MIN_WINDOWS = 3
MIN_BAD = 5
"""A load counts as judged once so many bad requests would have been seen at the target: fewer may be chance."""
MIN_DAYS, INCIDENT_SHARE = 3, 1 / 3
"""Of so many days on which a load was seen at least, those that lost the objective are incidents while they are at most this share: what
else than the load was wrong on them is not known.
"""
MIN_STARTS = 5
ASSUMED_COLD_START_S = 300.0
"""Where a cold start was neither measured nor entered: minutes to get a node and load weights."""


@dataclass(frozen=True, slots=True, eq=False)
class LoadWindows:
    """A pool's ledger by window of `window_s`: arrays of one length.

    `day` counts from 1970-01-01 UTC. `requests` reached `replicas`; of the `judged` ones, `good` kept the objective. Tokens and times
    are sums over the requests; `busy_s` is how long replicas worked on them. Prefill and decode are 0 where they were not measured.
    """

    window_s: int
    day: I64
    requests: I64
    replicas: I64
    judged: I64
    good: I64
    input_tokens: F64
    output_tokens: F64
    busy_s: F64
    prefill_s: F64
    decode_s: F64

    def __len__(self) -> int:
        return len(self.requests)


@dataclass(frozen=True, slots=True)
class Measured:
    """A capacity, or None and why. `lost_on`: the days on which more load, or without a capacity the least, lost the objective."""

    capacity: ReplicaCapacity | None
    reason: str
    lost_on: tuple[int, ...] = ()


def measured_capacity(windows: LoadWindows, target: float, slots: int | None = None) -> Measured:
    """The highest load per replica at which at least `target` (0..1) of the requests were good.

    Windows are put into bins of similar load. Because more load never makes an objective easier to keep, the shares of good requests are
    fitted by a falling step function (isotonic regression, Ayer et al. 1955, Annals of Mathematical Statistics 26), weighted by
    requests: neither a lucky busy window nor a bad quiet one decides alone, and neither does a day that differs from most others.
    """
    used = (windows.requests > 0) & (windows.replicas > 0)
    if not used.any():
        return Measured(None, "No request of this pool reached a replica in that time.")
    load = np.divide(
        windows.requests, windows.replicas * windows.window_s, out=np.zeros(len(windows)), where=windows.replicas > 0
    )
    bins = np.full(len(windows), -(10**6))
    bins[used] = np.floor(np.log(load[used]) / math.log(BIN_RATIO)).astype(int)
    bins[_incidents(windows, bins, target)] = -(10**6)
    used = bins > -(10**6)
    needed = math.ceil(MIN_BAD / max(1 - target, 1e-6))
    blocks = _blocks(windows, bins, sorted(set(bins[used].tolist())))
    judged = [block for block in blocks if block.judged >= needed and block.windows >= MIN_WINDOWS]
    if not judged:
        return Measured(
            None,
            f"Too little was measured: at no load did {MIN_WINDOWS} windows of {windows.window_s} s have {needed} judged requests.",
        )
    kept = [block for block in judged if block.good >= target * block.judged]
    if not kept:
        worst = judged[0]
        return Measured(
            None,
            f"The objective was not kept at any load: of {worst.judged} requests at the lowest, {worst.good / worst.judged:.1%} were "
            f"good, and {target:.1%} must be.",
            _lost_days(windows, np.isin(bins, worst.bins), target),
        )
    best = kept[-1]
    at = bins == best.bins[-1]
    capacity = _capacity(windows, at, float(load[at].mean()), slots)
    lost = [block for block in judged if block.bins[0] > best.bins[-1]]
    lost_on = _lost_days(windows, np.isin(bins, lost[0].bins), target) if lost else ()
    shown_on = int(windows.day[at].max())
    per_replica = f"{capacity.requests_per_s:.3g} requests/s a replica"
    if lost:
        share = lost[0].good / lost[0].judged
        reason = (
            f"{per_replica}: the highest load that kept the objective. Above it {share:.1%} of the requests were good."
        )
    else:
        reason = f"At least {per_replica}: the objective was kept at every load that was measured."
    capacity = replace(capacity, lower_bound=not lost, shown_on=shown_on, lost_on=lost_on, reason=reason)
    return Measured(capacity, reason, lost_on)


def _incidents(windows: LoadWindows, bins: I64, target: float) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """The windows of days that lost the objective at a load which most other days carried."""
    incidents = np.zeros(len(windows), dtype=bool)
    for number in set(bins.tolist()):
        at = bins == number
        days = set(windows.day[at & (windows.judged > 0)].tolist())
        lost = _lost_days(windows, at, target)
        if len(days) >= MIN_DAYS and len(lost) <= INCIDENT_SHARE * len(days):
            incidents |= at & np.isin(windows.day, lost)
    return incidents


def _lost_days(
    windows: LoadWindows, at: "np.ndarray[tuple[int], np.dtype[np.bool_]]", target: float
) -> tuple[int, ...]:
    """The days on which the objective was lost in these windows."""
    days = sorted(set(windows.day[at].tolist()))
    of_day = [at & (windows.day == day) for day in days]
    return tuple(
        day
        for day, own in zip(days, of_day, strict=True)
        if windows.good[own].sum() < target * windows.judged[own].sum()
    )


@dataclass(slots=True)
class _Block:
    bins: list[int]
    judged: int
    good: int
    windows: int

    @property
    def share(self) -> float:
        return self.good / self.judged if self.judged else 1.0


def _blocks(windows: LoadWindows, bins: I64, order: Sequence[int]) -> list[_Block]:
    """Neighbouring bins, pooled until the share of good requests falls with the load."""
    blocks: list[_Block] = []
    for number in order:
        at = bins == number
        block = _Block([number], int(windows.judged[at].sum()), int(windows.good[at].sum()), int(at.sum()))
        while blocks and blocks[-1].share < block.share:
            before = blocks.pop()
            block = _Block(
                before.bins + block.bins,
                before.judged + block.judged,
                before.good + block.good,
                before.windows + block.windows,
            )
        blocks.append(block)
    return blocks


def _capacity(
    windows: LoadWindows, at: "np.ndarray[tuple[int], np.dtype[np.bool_]]", load: float, slots: int | None
) -> ReplicaCapacity:
    requests = int(windows.requests[at].sum())
    inputs, outputs = (float(tokens[at].sum()) / requests for tokens in (windows.input_tokens, windows.output_tokens))
    replica_s = float(windows.replicas[at].sum()) * windows.window_s
    batch = float(windows.busy_s[at].sum()) / replica_s
    prefill, decode = float(windows.prefill_s[at].sum()), float(windows.decode_s[at].sum())
    # A prompt is read by itself; the steps of decoding serve the whole batch.
    share = prefill / (prefill + decode / max(batch, 1.0)) if prefill > 0 and decode > 0 else None
    return ReplicaCapacity(
        requests_per_s=load,
        source="ledger",
        mix=TokenMix(inputs, outputs) if inputs > 0 and outputs > 0 else None,
        input_share=share,
        batching_factor=batch if batch > 0 else None,
        slots=slots,
        measured_replicas=max(1, int(np.median(windows.replicas[at]))),
    )


def cold_start(starts_s: Sequence[float], entered_s: float | None) -> ColdStart:
    """P90 of measured starts (from creation to first good answer, s), else what was entered, else ASSUMED_COLD_START_S."""
    measured = [start_s for start_s in starts_s if math.isfinite(start_s) and start_s >= 0]
    if len(measured) >= MIN_STARTS:
        p90_s = float(np.quantile(measured, 0.9, method="higher"))
        return ColdStart(p90_s, "ledger", len(measured), f"P90 of {len(measured)} starts.")
    seen = f"{len(measured)} starts were measured, and {MIN_STARTS} are needed."
    if entered_s is not None:
        return ColdStart(entered_s, "entered", len(measured), f"{entered_s:g} s was entered. {seen}")
    return ColdStart(
        ASSUMED_COLD_START_S,
        "assumed",
        len(measured),
        f"{ASSUMED_COLD_START_S:g} s is assumed: none was entered. {seen}",
    )
