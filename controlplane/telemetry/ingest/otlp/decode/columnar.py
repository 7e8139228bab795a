"""Holds the spans of one body: as columns for the store, and as values for the ledger once their trace is complete.

There are two kinds: `Scanned`, which the compiled kernel has read, and `Listed`, made of single spans, which the kernel leaves to
the parser.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from struct import Struct
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from controlplane.telemetry.core.spans import Caller, Span
from controlplane.telemetry.store.write.arrow_columns import SPAN_SCHEMA, attribute_text, links_text, span_table

from .. import rejoin
from ..rejoin import LostTraces, moved, named_caller
from .groups import Group
from .kernel import columns
from .kernel.text import gather, texts
from .kernel.traces import group_by_trace
from .links import links_of
from .values import Known, Values

GATEWAY = "weir.gateway"
"""Scope of the gateway, which sends all its spans of a request at once, so that the request's own span is among them."""
_ATTRIBUTE = rejoin.ATTRIBUTE.encode()
_DOUBLE = Struct("<d").unpack_from
_AT_ONCE = 2_000  # spans


class Part(NamedTuple):
    """The spans of one trace in a body: `first` to `last` in the order of `Spans.of`."""

    trace_id: bytes
    first: int
    last: int
    size: int  # on the wire, bytes
    earliest_ns: int  # start of its first span
    rooted: bool = True  # whether its root, or all that a gateway sends of it, is among them


class Listed:
    """Spans as values, each with its size on the wire. Its methods are those of `Scanned`."""

    def __init__(self, spans: Sequence[tuple[Span, int]]) -> None:
        self._spans = sorted(spans, key=lambda pair: pair[0].trace_id)
        self.size = sum([size for _, size in spans])

    def __len__(self) -> int:
        return len(self._spans)

    def table(self) -> pa.Table:
        return span_table([span for span, _ in self._spans])

    def parts(self) -> list[Part]:
        parts: list[Part] = []
        first, spans = 0, self._spans
        for last in range(1, len(spans) + 1):
            if last == len(spans) or spans[last][0].trace_id != spans[first][0].trace_id:
                own = spans[first:last]
                size, earliest_ns = sum([size for _, size in own]), min([span.start_ns for span, _ in own])
                rooted = any(not span.parent_id or span.scope == GATEWAY for span, _ in own)
                parts.append(Part(own[0][0].trace_id, first, last, size, earliest_ns, rooted))
                first = last
        return parts

    def of(self, part: Part) -> list[Span]:
        return [span for span, _ in self._spans[part.first : part.last]]

    def release(self) -> None: ...

    def named_callers(self) -> dict[bytes, Caller]:
        callers: dict[bytes, Caller] = {}
        for span, _ in self._spans:
            if caller := named_caller(span.trace_id, span.attributes.get(rejoin.ATTRIBUTE)):
                callers[span.trace_id] = caller
        return callers

    def move(self, lost: LostTraces) -> None:
        spans = [(lost.get(span.trace_id), span, size) for span, size in self._spans]
        if any(caller for caller, _, _ in spans):
            rejoined = [(moved(span, caller) if caller else span, size) for caller, span, size in spans]
            self._spans = sorted(rejoined, key=lambda pair: pair[0].trace_id)


def listed(judged: Iterable[tuple[Span | str, int]], shard: int, shards: int) -> Iterator[Listed]:
    """The valid spans of one shard, some thousand at a time. A span that is refused is given as the reason."""
    own = ((span, size) for span, size in judged if isinstance(span, Span) and span.trace_id[15] % shards == shard)
    while some := list(islice(own, _AT_ONCE)):
        yield Listed(some)


def reasons(judged: Iterable[tuple[Span | str, int]]) -> Counter[str]:
    """How many spans were refused, by reason."""
    return Counter(reason for reason, _ in judged if isinstance(reason, str))


_known = Known()


class Scanned:
    """Spans as the kernel's arrays. `size` is on the wire, bytes."""

    def __init__(
        self,
        data: bytes,
        groups: Sequence[Group],
        ids: columns.Bytes,
        spans: columns.Numbers,
        pairs: columns.Numbers,
        events: columns.Numbers,
        event_pairs: columns.Numbers,
    ) -> None:
        self._data, self._bytes, self._groups = data, np.frombuffer(data, np.uint8), groups
        self._ids, self._spans, self._pairs, self._events, self._event_pairs = ids, spans, pairs, events, event_pairs
        self.size = int(spans[columns.SIZE].sum())
        self._order: list[int] = []
        self._values: Values | None = None

    def __len__(self) -> int:
        return int(self._spans.shape[1])

    def table(self) -> pa.Table:
        """The spans as columns of the store."""
        spans, ids, number = self._spans, self._ids, len(self)
        start_ns = spans[columns.START]
        group = spans[columns.GROUP]
        return pa.table(
            [
                _binary(ids[:, :16]),
                _binary(ids[:, 16:24]),
                _binary(ids[:, 24:]),
                pa.array(start_ns.view(np.uint64)),
                pa.array((spans[columns.END] - start_ns).view(np.uint64)),
                pa.array(spans[columns.KIND].astype(np.uint8)),
                pa.array(spans[columns.STATUS].astype(np.uint8)),
                self._text(spans[columns.NAME_AT], spans[columns.NAME_END]),
                pa.array([each.service for each in self._groups], pa.string()).take(pa.array(group)),
                pa.array([each.scope for each in self._groups], pa.string()).take(pa.array(group)),
                self._maps(_offsets(spans[columns.PAIR_LAST], number), self._pairs),
                *self._event_columns(number),
                self._text(spans[columns.MESSAGE_AT], spans[columns.MESSAGE_END]),
                pa.DictionaryArray.from_arrays(
                    pa.array(group, pa.int32()), pa.array([each.resource_text for each in self._groups], pa.string())
                ),
                self._links(number),
            ],
            schema=SPAN_SCHEMA,
        )

    def parts(self) -> list[Part]:
        """The spans by trace."""
        number = len(self)
        whole = np.array([each.scope == GATEWAY for each in self._groups], np.bool_)
        table = np.full(1 << (2 * number - 1).bit_length(), -1, np.int64)
        order, offsets, sums = (
            np.empty(number, np.int64),
            np.empty(number + 1, np.int64),
            np.empty((number, 3), np.int64),
        )
        traces = group_by_trace(self._ids.view(np.uint64), self._spans, whole, number, table, order, offsets, sums)
        firsts = self._ids[order[offsets[:traces]], :16].tobytes()
        self._order = order.tolist()
        at = offsets[: traces + 1].tolist()
        return [
            Part(firsts[16 * trace : 16 * trace + 16], at[trace], at[trace + 1], size, earliest_ns, bool(rooted))
            for trace, (size, earliest_ns, rooted) in enumerate(sums[:traces].tolist())
        ]

    def of(self, part: Part) -> list[Span]:
        """One trace's spans as values. Spans may share their attributes, which must not be changed."""
        if self._values is None:
            spans, where = self._spans, columns.PAIR_END + 1
            self._values = Values(
                _known,
                self._data,
                spans[: columns.SIZE].T.ravel().tolist(),
                self._ids.tobytes(),
                [self._groups[group] for group in spans[columns.GROUP].tolist()],
                self._events.ravel().tolist(),
                self._pairs[:, :where].ravel().tolist(),
                self._event_pairs[:, :where].ravel().tolist(),
            )
        return self._values.spans(part.trace_id, self._order[part.first : part.last])

    def release(self) -> None:
        """Let go of what can be made again from the columns."""
        self._values = None

    def named_callers(self) -> dict[bytes, Caller]:
        """The callers that lost traces in this body name, by their ids (see `rejoin`)."""
        pairs, callers = self._pairs, dict[bytes, Caller]()
        fits = (pairs[:, columns.KEY_END] - pairs[:, columns.KEY_AT] == len(_ATTRIBUTE)) & (
            pairs[:, columns.VALUE_END] - pairs[:, columns.VALUE] == rejoin.SIZE
        )
        for pair in np.flatnonzero(fits).tolist():
            key_at, key_end, kind, value, value_end = pairs[pair, columns.KEY_AT :].tolist()
            if kind != columns.TEXT or self._data[key_at:key_end] != _ATTRIBUTE:
                continue
            row = int(np.searchsorted(self._spans[columns.PAIR_LAST], pair, "right"))
            trace_id = self._ids[row, :16].tobytes()
            if caller := named_caller(trace_id, self._data[value:value_end].decode()):
                callers[trace_id] = caller
        return callers

    def move(self, lost: LostTraces) -> None:
        """Move the spans of lost traces into their callers' traces. Call it before the other methods."""
        for row in lost.among(self._ids.view(np.uint64)[:, 0]):
            if caller := lost.get(self._ids[row, :16].tobytes()):
                self._ids[row, :16] = np.frombuffer(caller.trace_id, np.uint8)
                if not self._ids[row, 24:].any():
                    self._ids[row, 24:] = np.frombuffer(caller.parent_id, np.uint8)

    def _event_columns(self, number: int) -> tuple[pa.Array, pa.Array, pa.Array]:
        spans, events = self._spans, self._events
        last = spans[columns.EVENT_LAST]
        of_span = np.repeat(spans[columns.START], last - spans[columns.EVENT_FIRST])
        offsets = _offsets(last, number)
        return (
            pa.ListArray.from_arrays(offsets, pa.array(events[:, columns.EVENT_NS] - of_span)),
            pa.ListArray.from_arrays(
                offsets, self._text(events[:, columns.EVENT_NAME_AT], events[:, columns.EVENT_NAME_END])
            ),
            pa.ListArray.from_arrays(
                offsets, self._maps(_offsets(events[:, columns.EVENT_PAIR_LAST], len(events)), self._event_pairs)
            ),
        )

    def _links(self, number: int) -> pa.Array:
        at, end = self._spans[columns.LINKS_AT], self._spans[columns.LINKS_END]
        written = [""] * number
        for row in np.flatnonzero(end > at).tolist():
            written[row] = links_text(links_of(self._data[at[row] : end[row]]))
        return pa.array(written, pa.string())

    def _text(self, starts: columns.Numbers, ends: columns.Numbers) -> pa.Array:
        offsets = np.empty(len(starts) + 1, np.int32)
        out = np.empty(int((ends - starts).sum()), np.uint8)
        gather(self._bytes, starts, ends, offsets, out)
        return pa.StringArray.from_buffers(len(starts), pa.py_buffer(offsets), pa.py_buffer(out))

    def _maps(self, offsets: pa.Array, pairs: columns.Numbers) -> pa.Array:
        number = len(pairs)
        keys = self._text(pairs[:, columns.KEY_AT], pairs[:, columns.KEY_END])
        kinds = pairs[:, columns.TYPE]
        uncompiled = [self._value_text(row) for row in pairs[kinds >= columns.DOUBLE].tolist()]
        written = np.frombuffer(b"".join(uncompiled), np.uint8)
        written_at = np.cumsum([0, *map(len, uncompiled)], dtype=np.int64)
        room = int((pairs[:, columns.VALUE_END] - pairs[:, columns.VALUE])[kinds == columns.TEXT].sum())
        out = np.empty(room + 20 * number + len(written), np.uint8)
        value_offsets = np.empty(number + 1, np.int32)
        size = texts(self._bytes, pairs, number, written, written_at, value_offsets, out)
        values = pa.StringArray.from_buffers(number, pa.py_buffer(value_offsets), pa.py_buffer(out[:size].copy()))
        return pa.MapArray.from_arrays(offsets, keys, values)

    def _value_text(self, pair: list[int]) -> bytes:
        """The text of a value that the kernel does not write."""
        if pair[columns.TYPE] == columns.DOUBLE:
            return attribute_text(_DOUBLE(self._data, pair[columns.VALUE])[0]).encode()
        _, value = _known.pairs.read(self._data[pair[columns.PAIR_AT] : pair[columns.PAIR_END]])
        return attribute_text(value).encode()


Spans = Scanned | Listed
"""Spans of one body."""


def _binary(ids: columns.Bytes) -> pa.Array:
    number, size = ids.shape
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(size), number, [None, pa.py_buffer(np.ascontiguousarray(ids))]
    )


def _offsets(lasts: columns.Numbers, number: int) -> pa.Array:
    offsets = np.empty(number + 1, np.int32)
    offsets[0] = 0
    offsets[1:] = lasts
    return pa.array(offsets)
