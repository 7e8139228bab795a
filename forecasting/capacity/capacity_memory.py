"""What stays known of a replica's capacity while traffic no longer shows it, and which of several sources counts."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from forecasting.capacity.assumptions import ReplicaCapacity
from forecasting.capacity.demand_on_pools import Load, work
from forecasting.capacity.replica_capacity import BIN_RATIO, Measured

MIN_LOST_DAYS = 3
"""A load that was carried is no longer believed in after so many days that lost the objective below it: fewer may be incidents."""


def still_known(before: ReplicaCapacity | None, now: Measured) -> Measured:
    """What is known after another measurement of the same objective on the same kind of replica.

    A replica that carried a load carries it: that traffic does not bring so much any more, because replicas were added, is no reason
    to believe in less. Else each week's capacity would be what the week before planned with, and the count would grow for ever.
    """
    seen = now.capacity
    if before is None:
        return now
    mix = seen.mix if seen else None
    carried = rps_of_tokens(before, mix.input_tokens, mix.output_tokens) if mix else before.requests_per_s
    if seen is not None and seen.requests_per_s >= carried:
        return now
    if seen is not None and seen.requests_per_s * BIN_RATIO >= carried:  # the same load, but for chance
        return replace(
            now, capacity=replace(before, lower_bound=seen.lower_bound, shown_on=seen.shown_on, lost_on=now.lost_on)
        )
    if _lost_since(now.lost_on, before.shown_on):
        return now
    at_least = "at least " if before.lower_bound else ""
    shown = datetime.fromtimestamp(0, UTC) + timedelta(days=before.shown_on)
    until = f"until {shown:%Y-%m-%d}" if before.shown_on else "before"
    reason = f"{at_least.capitalize()}{before.requests_per_s:.3g} requests/s a replica, which it carried {until}. {now.reason}"
    return Measured(replace(before, reason=reason), reason, now.lost_on)


def chosen_capacity(
    measured: ReplicaCapacity | None, benchmark: ReplicaCapacity | None, entered: ReplicaCapacity | None
) -> ReplicaCapacity | None:
    """The ledger's, else a benchmark run's, else the entered one.

    A higher one of the others counts where the ledger has only a lower bound, because traffic never brought a replica to its limit. So
    does a higher benchmark, until more than that was lost on MIN_LOST_DAYS days after it.
    """
    other = benchmark or entered
    if measured is None or other is None:
        return measured or other
    if other.requests_per_s <= measured.requests_per_s:
        return measured
    if measured.lower_bound:
        why = f"Traffic has shown only that it is at least {measured.requests_per_s:.3g} requests/s."
    elif other is benchmark and not _lost_since(measured.lost_on, benchmark.shown_on):
        why = f"Above {measured.requests_per_s:.3g} requests/s traffic lost the objective on fewer than {MIN_LOST_DAYS} days after it."
    else:
        return measured
    return replace(other, reason=f"{other.reason} {why}".strip())


def rps_of_tokens(capacity: ReplicaCapacity, input_tokens: float | None, output_tokens: float | None) -> float:
    """Requests/s of this many tokens each; of the measured mix where the tokens are not known."""
    inputs, outputs = (None if value is None else np.array([value]) for value in (input_tokens, output_tokens))
    weight = float(np.max(work(Load("", "", np.zeros(0), np.zeros(0), inputs, outputs), capacity)))
    return capacity.requests_per_s / weight if weight > 0 else capacity.requests_per_s


def _lost_since(lost_on: tuple[int, ...], shown_on: int) -> bool:
    return sum(day > shown_on for day in lost_on) >= MIN_LOST_DAYS
