"""A replica's profile where only what it carries is known, not the times of its passes."""

from dataclasses import replace
from math import ceil

import numpy as np

from forecasting.capacity.assumptions import ReplicaCapacity, TokenMix
from forecasting.series import Series
from forecasting.simulate.arrivals import Arrivals, Lengths, from_rates
from forecasting.simulate.outcome import Objective
from forecasting.simulate.policy import Fixed
from forecasting.simulate.profile import ReplicaProfile
from forecasting.simulate.replay import Pool, replay

USED_SHARE = 0.85
"""Of its slots, at the load that a replica carries; where the batching factor was not measured."""
INPUT_SHARE = 0.3
"""The part of a replica's work that prompts cause, where it was not measured."""
USUAL_MIX = TokenMix(500, 200)
USUAL_SLOTS = 16
REQUESTS = 10_000
ROUNDS = 10


def profile_of(capacity: ReplicaCapacity, mix: TokenMix | None = None) -> ReplicaProfile:
    """A replica that is as full at the load of `capacity` as was measured: its slots in use are what is used of its time.

    Decode steps are taken to last as long with any batch. Requests are of `mix`, else of the one that the capacity was measured with.
    """
    tokens = mix or capacity.mix or USUAL_MIX
    slots = capacity.slots or ceil((capacity.batching_factor or USUAL_SLOTS * USED_SHARE) / USED_SHARE)
    used = min(0.99, (capacity.batching_factor or slots * USED_SHARE) / slots)
    request_s = used / capacity.requests_per_s
    share = INPUT_SHARE if capacity.input_share is None else capacity.input_share
    return ReplicaProfile(
        prefill_s=0.0,
        prefill_token_s=share * request_s / tokens.input_tokens,
        step_s=(1 - share) * request_s * slots / max(1.0, tokens.output_tokens - 1),
        step_sequence_s=0.0,
        max_sequences=slots,
        gpus=capacity.gpus_per_replica,
        # The measured requests had room in it: where they share prefixes, it holds more than its size.
        kv_tokens=max(capacity.kv_tokens, ceil(slots * used * (tokens.input_tokens + tokens.output_tokens)))
        if capacity.kv_tokens
        else 0,
    )


def fitted_profile(
    capacity: ReplicaCapacity, lengths: Lengths, objective: Objective, burstiness: float = 1.0
) -> ReplicaProfile | None:
    """The slowest such replica that keeps the objective at its measured load, in a pool of the measured size; None where none does.

    All times of `profile_of` are multiplied by one number, found by bisection.
    """
    mix = TokenMix(float(np.mean(lengths.input_tokens)), float(np.mean(lengths.output_tokens)))
    plain, replicas = profile_of(capacity, mix), capacity.measured_replicas
    rate_rps = capacity.requests_per_s * replicas
    unit = from_rates(Series(0, 1, np.ones(REQUESTS)), lengths, burstiness=burstiness)
    arrivals = Arrivals(unit.arrival_s / rate_rps, unit.input_tokens, unit.output_tokens)

    def scaled(factor: float) -> ReplicaProfile:
        return replace(plain, prefill_token_s=plain.prefill_token_s * factor, step_s=plain.step_s * factor)

    def kept(factor: float) -> bool:
        pool = Pool(scaled(factor), min_replicas=replicas, max_replicas=replicas)
        return replay(arrivals, pool, Fixed(replicas, tick_s=REQUESTS / rate_rps), objective).kept

    # At 1 / used a replica has no more time than the load takes.
    request_s = plain.prefill_token_s * mix.input_tokens + plain.step_s * mix.output_tokens / plain.max_sequences
    low, high = 0.02, 1.5 / (capacity.requests_per_s * request_s)
    if not kept(low):
        return None
    for _ in range(ROUNDS):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if kept(middle) else (low, middle)
    return scaled(low)
