"""Assembles traces of which several pipelines received parts. The pipelines share nothing but the store.

Every pipeline writes in this order: spans, then a *share*, which says that it closed this trace, then rows. After its rows it queries
whether another pipeline has a share of one of its traces. It closes such a trace again, with all spans that the store has, and repeats
this until no share is new. Of two pipelines, the one that writes its share last sees the other's share, and with it all spans and rows
that the other wrote before. A pipeline that is killed on the way repeats the batch, because its checkpoint has not moved.

A *lost* trace (otlp/rejoin.py) is closed into another: its spans are copied into their caller's trace, that is closed again, and the
rows of the lost trace are withdrawn. The copying pipeline does not hold those spans in memory, so it writes its share of the caller's
trace as another pipeline's: it reads them back when more of that trace arrives.

The result does not depend on the order of writing: rows and withdrawals carry a version that grows with the number of spans from which
they were made (`batch.version_of`), and the highest version counts.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from controlplane.telemetry.core.spans import ROW_SPANS, Caller, Span
from controlplane.telemetry.ingest.otlp.rejoin import moved
from controlplane.telemetry.ledger import LedgerRow
from controlplane.telemetry.store.write.keys import SHARES_KEPT_H, RequestKey, key_of, share_of

from .batch import Batch, Refuse, rows_of, version_of, withdrawal_of
from .fleet_names import FleetNames

SLACK_S = 300
"""How far apart in time the parts of a trace may reach two pipelines, s, beyond the time that the later part spans."""
MAX_TRACES, MAX_SPANS = 1_000, 50_000
"""How many are read from the store and closed at a time, which bounds memory."""
OLDEST_S = SHARES_KEPT_H * 3600 - SLACK_S
"""How long shares are kept with certainty, s."""


class Closing:
    """The result of closing traces with the spans in the store."""

    def __init__(
        self,
        traces: list[list[Span]],
        present: set[RequestKey],
        callers: Mapping[bytes, Caller],
        names: FleetNames,
        counts: Mapping[bytes, int] = MappingProxyType({}),
        refused: Refuse = lambda items, reason: None,
    ) -> None:
        """`traces` are all spans of each trace in the store, `present` the requests that the store has of them, `callers` those of the lost
        ones among them, `names` as in `fleet_names`. A trace that cannot be closed, or of which the store has no span, keeps its rows.
        `counts` is how many spans of each the store has: of a trace with more than ROW_SPANS only the earliest are in `traces`."""
        self.rows: list[tuple[LedgerRow, int]] = []
        self.moved: list[Span] = []
        withdrawals: dict[bytes, int] = {}
        for spans in traces:
            if caller := callers.get(spans[0].trace_id):
                self.moved += [moved(span, caller) for span in spans]
                withdrawals[spans[0].trace_id] = withdrawal_of(spans)
                continue
            rows = rows_of(spans, names, refused)
            if rows is None:
                continue
            trace_id = spans[0].trace_id
            known = counts.get(trace_id, 0) if len(spans) >= ROW_SPANS else 0
            version = version_of(spans, known)
            self.rows += [(row, version) for row in rows]
            withdrawals[trace_id] = withdrawal_of(spans, known)
        left_out = present - {key_of(row) for row, _ in self.rows}
        self.withdrawn = [(key, withdrawals[key.trace_id]) for key in left_out if key.trace_id in withdrawals]


def groups(trace_ids: Sequence[bytes], counts: Mapping[bytes, int]) -> Iterator[list[bytes]]:
    """Divides traces into groups of at most MAX_TRACES and MAX_SPANS. An oversized trace is a group of its own."""
    some: list[bytes] = []
    spans = 0
    for trace_id in trace_ids:
        count = counts.get(trace_id, 0)
        if count > ROW_SPANS:
            yield [trace_id]
            continue
        if some and (len(some) == MAX_TRACES or spans + count > MAX_SPANS):
            yield some
            some, spans = [], 0
        some.append(trace_id)
        spans += count
    if some:
        yield some


class Shared:
    """Finds the traces of one batch of which other pipelines have a share."""

    def __init__(self, batch: Batch) -> None:
        self.shares = share_of(batch.closed) if batch.closed else []
        self._trace_ids = batch.closed
        self._since_ns = batch.since_ns
        self._seen: dict[int, int] = {}

    def age_s(self, now_ns: int) -> int:
        """How far back to query the shares of other pipelines, s."""
        return min(max(0, (now_ns - self._since_ns) // 10**9) + SLACK_S, SHARES_KEPT_H * 3600)

    def new(self, counts: dict[int, int]) -> set[bytes]:
        """Traces of which there are more shares than at the previous call."""
        if not counts:
            return set()
        grown = {share for share, number in counts.items() if number > self._seen.get(share, 0)}
        self._seen = counts
        return {trace_id for trace_id, share in zip(self._trace_ids, self.shares, strict=True) if share in grown}


def identity() -> int:
    """A random number that identifies this run of a pipeline in shares. What an earlier run closed counts as another pipeline's, and is
    closed again where more of it arrives."""
    return secrets.randbits(64)


def oldest_ns(now_ns: int) -> int:
    """Of spans received before this time, another pipeline may have closed a part so long ago that its share has expired."""
    return now_ns - OLDEST_S * 10**9
