"""From counted steps to demand in even steps, with gaps where it is not known."""

from collections.abc import Iterable, Mapping

import numpy as np

from controlplane.slo.core.gaps import Gap
from controlplane.telemetry.core.demand_rows import MIN_SHARE, DemandRows
from forecasting.demand import Demand, DemandKey
from forecasting.series import F64, Series


def demand_of(rows: DemandRows, from_s: int, step_s: int, known: F64) -> Demand:
    """The demand of one key from `from_s` on, per second. `known` says for which part of each step it was measured; 0 is a gap.

    Before the key's first request every step is a gap: it may not have existed. Requests without a number of tokens, such as refused
    ones, count with the mean of their step, or of all steps where none of theirs is known.
    """
    index = (rows.start_s - from_s) // step_s

    def counted(values: F64) -> Series:
        dense = np.zeros(len(known))
        dense[index] = values
        dense = np.divide(dense, known * step_s, out=np.full(len(known), np.nan), where=known > 0)
        if len(index):
            dense[: int(index.min())] = np.nan
        return Series(from_s, step_s, dense)

    counts = rows.counts
    return Demand(
        DemandKey(rows.model, rows.tier, rows.region),
        counted(counts["requests"]),
        counted(_wanted(counts["requests"], counts["input_tokens"], counts["input_known"])),
        counted(_wanted(counts["requests"], counts["output_tokens"], counts["output_known"])),
        counted(counts["shed"]),
        counted(counts["limited"]),
        counted(counts["from_cache"]),
    )


def measured(gaps: Iterable[Gap], scope: Mapping[str, str], from_s: int, step_s: int, count: int) -> F64:
    """Of which part of a scope's requests in each step the ledger has a row. 0 where that is less than MIN_SHARE: a gap."""
    part = np.ones(count)
    for gap in gaps:
        lost = gap.lost_share(scope)
        if not lost:
            continue
        first, end = max(0, (gap.from_s - from_s) // step_s), min(count, -(-(gap.to_s - from_s) // step_s))
        for step in range(first, end):
            start_s = from_s + step * step_s
            part[step] -= lost * (min(gap.to_s, start_s + step_s) - max(gap.from_s, start_s)) / step_s
    return np.where(part < MIN_SHARE, 0.0, part)


def _wanted(requests: F64, tokens: F64, known: F64) -> F64:
    """The tokens of all requests, where those of `known` are known."""
    usual = float(tokens.sum() / known.sum()) if known.sum() > 0 else 0.0
    means: F64 = np.divide(tokens, known, out=np.full(len(tokens), usual), where=known > 0)
    return means * requests
