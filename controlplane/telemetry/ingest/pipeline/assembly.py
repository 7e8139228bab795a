"""Brings together what several pipelines got of one trace, by way of the store alone.

Every pipeline writes, in this order: spans, then a *share* that says "I closed this trace", then rows. After its rows it looks whether
another pipeline has a share of one of its traces; such a trace it closes again, with all spans that the store has, and looks again until no
share is new. Of two pipelines, the one that writes its share last sees the other's, and with it all spans and rows that the other wrote
before. A pipeline that is killed on the way works the batch off again, because its checkpoint has not moved.

A *lost* trace (otlp/rejoin.py) is closed into another: its spans are copied to where they belong, that trace is closed again, and the rows
of the lost one are taken back.

What is written never depends on the order of writing: rows and withdrawals carry a version that grows with the number of spans that they
were made from (`batch.version_of`), and the highest counts.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from controlplane.telemetry.core.spans import ROW_SPANS, Span
from controlplane.telemetry.ingest.otlp.rejoin import Home, moved
from controlplane.telemetry.ledger import LedgerRow
from controlplane.telemetry.store.write.shares import KEPT_H, share_of
from controlplane.telemetry.store.write.withdraw import RequestKey, key_of

from .batch import Batch, Refuse, rows_of, version_of, withdrawal_of

SLACK_S = 300
"""By how much the parts of a trace that reach two pipelines may lie apart, beyond the time that the later part itself spans."""
MOST_TRACES, MOST_SPANS = 1_000, 50_000
"""Closed at a time out of the store: bounds memory."""
OLDEST_S = KEPT_H * 3600 - SLACK_S
"""How long shares can be relied on, s."""


class Closing:
    """Traces closed out of the store: what is to be written."""

    def __init__(
        self,
        traces: list[list[Span]],
        present: set[RequestKey],
        homes: Mapping[bytes, Home],
        names: Mapping[str, str],
        counts: Mapping[bytes, int] = MappingProxyType({}),
        refused: Refuse = lambda items, reason: None,
    ) -> None:
        """`traces` is all that the store has of each, `present` the requests that it has of them, `homes` where the lost ones among them
        belong, `names` as in `naming`. A trace that cannot be closed, or of which the store has no span, keeps its rows. `counts` is how
        many spans of each the store has: of a trace with more than ROW_SPANS only the earliest are in `traces`."""
        self.rows: list[LedgerRow] = []
        self.versions: list[int] = []
        self.moved: list[Span] = []
        withdrawals: dict[bytes, int] = {}
        for spans in traces:
            if home := homes.get(spans[0].trace_id):
                self.moved += [moved(span, home) for span in spans]
                withdrawals[spans[0].trace_id] = withdrawal_of(spans)
                continue
            rows = rows_of(spans, names, refused)
            if rows is None:
                continue
            trace_id = spans[0].trace_id
            known = counts.get(trace_id, 0) if len(spans) >= ROW_SPANS else 0
            self.rows += rows
            self.versions += [version_of(spans, known)] * len(rows)
            withdrawals[trace_id] = withdrawal_of(spans, known)
        gone = present - set(map(key_of, self.rows))
        self.withdrawn = [key for key in gone if key.trace_id in withdrawals]
        self.withdrawals = [withdrawals[key.trace_id] for key in self.withdrawn]


def groups(trace_ids: Sequence[bytes], counts: Mapping[bytes, int]) -> Iterator[list[bytes]]:
    """These traces in groups that are closed at a time: at most MOST_TRACES and MOST_SPANS. An oversized one is alone."""
    some: list[bytes] = []
    spans = 0
    for trace_id in trace_ids:
        count = counts.get(trace_id, 0)
        if count > ROW_SPANS:
            yield [trace_id]
            continue
        if some and (len(some) == MOST_TRACES or spans + count > MOST_SPANS):
            yield some
            some, spans = [], 0
        some.append(trace_id)
        spans += count
    if some:
        yield some


class Shared:
    """Of one batch's traces, those of which other pipelines have a share."""

    def __init__(self, batch: Batch) -> None:
        self.shares = share_of(batch.closed) if batch.closed else []
        self._trace_ids = batch.closed
        self._since_ns = batch.since_ns
        self._seen: dict[int, int] = {}

    def age_s(self, now_ns: int) -> int:
        """How far back to look for the shares of others."""
        return min(max(0, (now_ns - self._since_ns) // 10**9) + SLACK_S, KEPT_H * 3600)

    def new(self, found: dict[int, int]) -> set[bytes]:
        """Traces of which there are more shares than when this was last asked."""
        if not found:
            return set()
        grown = {share for share, number in found.items() if number > self._seen.get(share, 0)}
        self._seen = found
        return {trace_id for trace_id, share in zip(self._trace_ids, self.shares, strict=True) if share in grown}


def identity() -> int:
    """The number by which shares know a pipeline, new at each start: what it closed before a restart counts as another's, and is closed
    again where more of it comes."""
    return secrets.randbits(64)


def oldest_ns(now_ns: int) -> int:
    """Of spans received before this time, another pipeline may have closed a part so long ago that no share of it is left."""
    return now_ns - OLDEST_S * 10**9
