"""Synthetic requests: a daily and weekly rhythm, growth, noise, an incident, and answers of varied length."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from inference.contract.stages import STAGES

F64 = npt.NDArray[np.float64]
STEP_S, DAY_S, WEEK_S = 300, 86_400, 7 * 86_400
MS = 1e6
GROWTH_A_WEEK = 1.03
BY_DAY = (1.0, 1.03, 1.05, 1.02, 0.95, 0.55, 0.5)
"""Monday to Sunday."""
STATUSES, STATUS_SHARES = ("ok", "error", "cancelled"), (0.985, 0.005, 0.01)
OUTCOMES, OUTCOME_SHARES = ("miss", "hit", "coalesced"), (0.8, 0.17, 0.03)
PARTS_OF_TIME = {"network": 0.02, "gateway": 0.01, "tokenizer": 0.01, "cache": 0.01, "queue": 0.07, "egress": 0.01}
"""Mean shares of the time; the rest is the model's."""


@dataclass(frozen=True, slots=True)
class Stream:
    """Synthetic traffic of one model, tier and region. Its busiest hour of the day is `peak_hour` (UTC)."""

    model: str
    variant: str
    pool: str
    tier: str
    region: str
    requests_per_s: float
    peak_hour: float
    input_tokens: float
    output_tokens: float


def expected(stream: Stream, start_s: int, steps: int, begins_s: int) -> F64:
    """Requests of each step of STEP_S from `start_s` on. Growth counts from `begins_s`."""
    at_s = start_s + np.arange(steps) * STEP_S
    hour = (at_s % DAY_S) / 3600
    daily = (
        1
        + 0.75 * np.cos((hour - stream.peak_hour) / 24 * 2 * np.pi)
        + 0.15 * np.cos((hour - stream.peak_hour) / 6 * np.pi)
    )
    weekday = (at_s // DAY_S + 3) % 7  # the epoch was a Thursday
    growth = GROWTH_A_WEEK ** ((at_s - begins_s) / WEEK_S)
    wanted: F64 = stream.requests_per_s * STEP_S * np.maximum(daily, 0.05) * np.array(BY_DAY)[weekday] * growth
    return wanted


def requests(
    streams: Sequence[Stream], start_s: int, length_s: int, begins_s: int, seed: int
) -> dict[str, npt.NDArray[np.generic]]:
    """Columns of the ledger for all requests in [start_s, start_s + length_s). The same arguments give the same requests."""
    chance = np.random.default_rng([seed, start_s])
    steps = length_s // STEP_S
    counts = np.stack([chance.poisson(expected(stream, start_s, steps, begins_s)) for stream in streams])
    total = int(counts.sum())
    cells = np.repeat(np.arange(counts.size), counts.ravel())
    which, step = cells // steps, cells % steps
    entry_ns = (start_s + step * STEP_S) * 10**9 + chance.integers(0, STEP_S * 10**9, total)

    def by_request(name: str) -> npt.NDArray[Any]:
        values: npt.NDArray[Any] = np.asarray([getattr(stream, name) for stream in streams])[which]
        return values

    inputs = np.maximum(1, by_request("input_tokens") * chance.lognormal(-0.32, 0.8, total)).astype(np.uint32)
    outputs = np.maximum(1, by_request("output_tokens") * chance.lognormal(-0.25, 0.7, total)).astype(np.uint32)
    status = np.array(STATUSES)[chance.choice(len(STATUSES), total, p=STATUS_SHARES)]
    outcome = np.array(OUTCOMES)[chance.choice(len(OUTCOMES), total, p=OUTCOME_SHARES)]
    busy = counts[which, step] / np.maximum(counts.max(axis=1)[which], 1)
    model_ns = (60 + 0.08 * inputs + 12.0 * outputs) * MS * (1 + 0.4 * busy) * chance.lognormal(0, 0.1, total)
    model_ns = np.where(outcome == "hit", 0.0, model_ns)
    whole_ns = np.where(
        outcome == "hit", chance.gamma(4, 1.5, total) * MS, model_ns / (1 - sum(PARTS_OF_TIME.values()))
    )
    parts = {
        stage: (whole_ns * PARTS_OF_TIME.get(stage, 0.0)).astype(np.uint64)
        if stage != "model"
        else model_ns.astype(np.uint64)
        for stage in STAGES
    }
    e2e_ns = np.maximum(whole_ns.astype(np.uint64), np.sum(list(parts.values()), axis=0, dtype=np.uint64))
    first_ns = np.minimum((60 + 0.08 * inputs) * MS * (1 + 0.4 * busy), e2e_ns)
    return {
        "request_id": np.arange(total, dtype=np.uint64),
        "entry_start_ns": entry_ns.astype(np.uint64),
        "start_ns": entry_ns.astype(np.uint64),
        "e2e_ns": e2e_ns,
        **{f"stage_{stage}": values for stage, values in parts.items()},
        "unattributed_ns": e2e_ns - np.sum(list(parts.values()), axis=0, dtype=np.uint64),
        "ttft_ns": first_ns.astype(np.uint64),
        "ttft_definition": np.full(total, "gateway"),
        "status": status,
        "cache_outcome": outcome,
        "prompt_tokens": inputs,
        "output_tokens": outputs,
        **{name: by_request(name) for name in ("model", "variant", "pool", "tier", "region")},
    }
