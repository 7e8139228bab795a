"""Demand in a store, as the rollups leave it."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from controlplane.telemetry.store import Store
from controlplane.telemetry.store.read.demand import STEP_S

TOKENS_IN, TOKENS_OUT = 500, 80
"""Of each request."""


def store_demand(
    store: Store,
    from_s: int,
    requests: Sequence[int] | np.ndarray,
    key: tuple[str, str, str] = ("chat-large", "premium", "eu"),
    *,
    shed: int = 0,
    build: int = 1,
    finished: bool = True,
) -> None:
    """Requests in each five minutes from `from_s` on, of which `shed` were refused; none came from the cache.

    A step with 0 has no row, as in earnest. `finished` says whether readers may use the build.
    """
    counts = np.asarray(requests, np.int64)
    at = np.flatnonzero(counts)
    known = np.maximum(counts[at] - shed, 0)
    columns: dict[str, np.ndarray | list[str]] = {
        "start_s": from_s + at * STEP_S,
        "requests": counts[at],
        "shed": np.minimum(shed, counts[at]),
        "limited": np.zeros(len(at), np.int64),
        "from_cache": np.zeros(len(at), np.int64),
        "input_tokens": known * TOKENS_IN,
        "input_known": known,
        "output_tokens": known * TOKENS_OUT,
        "output_known": known,
        "build": build + at,
        **{name: [value] * len(at) for name, value in zip(("model", "tier", "region"), key, strict=True)},
    }
    store.insert_arrow("demand", pa.table(columns))
    if finished:
        _finish(store, columns)


def _finish(store: Store, columns: dict[str, np.ndarray | list[str]]) -> None:
    count = len(columns["start_s"])
    store.insert_arrow(
        "rollup_builds",
        pa.table(
            {
                "kind": ["demand"] * count,
                "step_s": np.full(count, STEP_S),
                "start_s": columns["start_s"],
                "version": columns["build"],
                "build": columns["build"],
                "touches": np.ones(count, np.int64),
            }
        ),
    )


def store_recorded(store: Store, from_s: int, seconds: Sequence[float]) -> None:
    """For how many seconds of each five minutes from `from_s` on telemetry received; None of them where it is 0."""
    store.rollups.insert_recorded({from_s + STEP_S * at: value for at, value in enumerate(seconds) if value})
