"""Reads spans into arrays, and counts those that are refused."""

from typing import Any

import numpy as np

from controlplane.telemetry.ingest.compiled import compiled

from . import columns as col
from .columns import Bytes, Numbers
from .fields import extent, has_distinct_keys, is_utf8, read_pair, u64


@compiled
def _event(data: Bytes, at: int, end: int, events: Numbers, pairs: Numbers, counts: Numbers) -> bool:
    row = counts[col.EVENTS]
    if row >= events.shape[0]:
        return False
    events[row, col.EVENT_NS] = 0
    events[row, col.EVENT_NAME_AT] = events[row, col.EVENT_NAME_END] = at
    events[row, col.EVENT_PAIR_FIRST] = counts[col.EVENT_PAIRS]
    while at < end:
        tag = data[at]
        if tag == 0x09:
            if at + 9 > end:
                return False
            events[row, col.EVENT_NS] = u64(data, at + 1)
            if events[row, col.EVENT_NS] < 0:
                events[row, col.EVENT_NS] = col.LATEST_NS
            at += 9
        elif tag == 0x12 or tag == 0x1A:
            at, stop = extent(data, at + 1, end)
            if at < 0:
                return False
            if tag == 0x12:
                if not is_utf8(data, at, stop):
                    return False
                events[row, col.EVENT_NAME_AT], events[row, col.EVENT_NAME_END] = at, stop
            else:
                pair = counts[col.EVENT_PAIRS]
                if pair >= pairs.shape[0] or not read_pair(data, at, stop, pairs, pair):
                    return False
                counts[col.EVENT_PAIRS] += 1
            at = stop
        else:
            return False
    events[row, col.EVENT_PAIR_LAST] = counts[col.EVENT_PAIRS]
    counts[col.EVENTS] += 1
    return has_distinct_keys(data, pairs, events[row, col.EVENT_PAIR_FIRST], events[row, col.EVENT_PAIR_LAST])


@compiled
def _status(data: Bytes, at: int, end: int, spans: Numbers, row: int) -> int:
    """The status code, 0 where it is not one of OTLP's, or UNUSUAL. Writes where the message lies."""
    code: Any = 0
    while at < end:
        if data[at] == 0x18 and at + 1 < end and data[at + 1] < 0x80:
            code = np.int64(data[at + 1])
            at += 2
        elif data[at] == 0x12:
            at, stop = extent(data, at + 1, end)
            if at < 0 or not is_utf8(data, at, stop):
                return col.UNUSUAL
            spans[col.MESSAGE_AT, row], spans[col.MESSAGE_END, row] = at, stop
            at = stop
        else:
            return col.UNUSUAL
    return code if code <= 2 else 0


@compiled
def _id(data: Bytes, at: int, end: int, ids: Bytes, row: int, first: int, size: int) -> bool:
    """Copy an id. False where it has another length or is all zeros."""
    if end - at != size:
        return False
    any_set: Any = np.uint8(0)
    for step in range(size):
        ids[row, first + step] = data[at + step]
        any_set |= data[at + step]
    return bool(any_set != 0)


@compiled
def read_spans(
    data: Bytes, places: Numbers, first: int, last: int, largest: int, earliest_ns: int, latest_ns: int, shard: int, shards: int,
    ids: Bytes, spans: Numbers, pairs: Numbers, events: Numbers, event_pairs: Numbers, counts: Numbers,
) -> int:  # fmt: skip
    """Read the spans of this shard at `places[:, first:last]`: count those that are refused, write the others.

    Returns how many were written, or UNUSUAL: then the content of the arrays must not be used.
    """
    counts[:] = 0
    for place in range(first, last):
        at, end = places[col.PLACE_AT, place], places[col.PLACE_END, place]
        if end - at > largest:
            counts[col.FAULTS] += 1
            continue
        if (
            shards > 1
            and end - at >= 18
            and data[at] == 0x0A
            and data[at + 1] == 16
            and data[at + 17] % shards != shard
        ):
            continue
        row = counts[col.SPANS]
        before = counts[col.PAIRS], counts[col.EVENTS], counts[col.EVENT_PAIRS]
        first_pair, first_event, first_event_pair = before
        trace_at = trace_end = span_at = span_end = parent_at = parent_end = name_at = name_end = at
        kind: Any = 0
        status, start_ns, end_ns = 0, 0, 0
        block_at, block_end, blocks = at, at, 0
        spans[col.SIZE, row], spans[col.GROUP, row] = end - at, places[col.PLACE_GROUP, place]
        spans[col.MESSAGE_AT, row] = spans[col.MESSAGE_END, row] = at
        spans[col.LINKS_AT, row] = spans[col.LINKS_END, row] = at
        while at < end:
            tag = data[at]
            if tag == 0x39 or tag == 0x41:
                if at + 9 > end:
                    return col.UNUSUAL
                if tag == 0x39:
                    start_ns = u64(data, at + 1)
                else:
                    end_ns = u64(data, at + 1)
                at += 9
            elif tag == 0x30:
                if at + 1 >= end or data[at + 1] > 0x7F:
                    return col.UNUSUAL
                kind = np.int64(data[at + 1])
                at += 2
            elif tag == 0x85:  # flags
                if at + 6 > end or data[at + 1] != 1:
                    return col.UNUSUAL
                at += 6
            elif tag == 0x50 or tag == 0x60 or tag == 0x70:  # what was dropped
                if at + 1 >= end or data[at + 1] > 0x7F:
                    return col.UNUSUAL
                at += 2
            else:
                field = at
                at, stop = extent(data, at + 1, end)
                if at < 0:
                    return col.UNUSUAL
                if tag == 0x4A:
                    pair = counts[col.PAIRS]
                    if pair >= pairs.shape[0] or not read_pair(data, at, stop, pairs, pair):
                        return col.UNUSUAL
                    counts[col.PAIRS] += 1
                    if block_end != field or blocks == 0:
                        block_at = field
                        blocks += 1
                    block_end = stop
                elif tag == 0x0A:
                    trace_at, trace_end = at, stop
                elif tag == 0x12:
                    span_at, span_end = at, stop
                elif tag == 0x22:
                    parent_at, parent_end = at, stop
                elif tag == 0x2A:
                    if not is_utf8(data, at, stop):
                        return col.UNUSUAL
                    name_at, name_end = at, stop
                elif tag == 0x5A:
                    if not _event(data, at, stop, events, event_pairs, counts):
                        return col.UNUSUAL
                elif tag == 0x7A:
                    status = _status(data, at, stop, spans, row)
                    if status == col.UNUSUAL:
                        return col.UNUSUAL
                elif tag == 0x6A:  # a link: they lie side by side, and the parser reads them
                    if spans[col.LINKS_END, row] == spans[col.LINKS_AT, row]:
                        spans[col.LINKS_AT, row] = field
                    elif spans[col.LINKS_END, row] != field:
                        return col.UNUSUAL
                    spans[col.LINKS_END, row] = stop
                elif tag == 0x1A:  # the trace's state
                    if not is_utf8(data, at, stop):
                        return col.UNUSUAL
                else:
                    return col.UNUSUAL
                at = stop
        if not has_distinct_keys(data, pairs, first_pair, counts[col.PAIRS]):
            return col.UNUSUAL
        fault = 0
        if not _id(data, trace_at, trace_end, ids, row, 0, 16):
            fault = 1
        elif not _id(data, span_at, span_end, ids, row, 16, 8):
            fault = 2
        elif parent_at == parent_end:
            ids[row, 24:32] = 0
        elif parent_end - parent_at != 8:
            fault = 3
        else:
            _id(data, parent_at, parent_end, ids, row, 24, 8)
        if fault == 0 and start_ns <= 0:
            fault = 4
        elif fault == 0 and end_ns <= 0:
            fault = 5
        elif fault == 0 and max(start_ns, end_ns) > latest_ns:
            fault = 6
        elif fault == 0 and start_ns < earliest_ns:
            fault = 7
        if fault:
            if spans[col.LINKS_END, row] > spans[col.LINKS_AT, row]:
                return col.UNUSUAL
            for pair in range(first_pair, counts[col.PAIRS]):
                if pairs[pair, col.TYPE] == col.ODD:
                    return col.UNUSUAL
            for pair in range(first_event_pair, counts[col.EVENT_PAIRS]):
                if event_pairs[pair, col.TYPE] == col.ODD:
                    return col.UNUSUAL
            counts[col.FAULTS + fault] += 1
            counts[col.PAIRS], counts[col.EVENTS], counts[col.EVENT_PAIRS] = before
            continue
        if shards > 1 and ids[row, 15] % shards != shard:
            counts[col.PAIRS], counts[col.EVENTS], counts[col.EVENT_PAIRS] = before
            continue
        spans[col.START, row], spans[col.END, row] = start_ns, max(start_ns, end_ns)
        spans[col.KIND, row] = kind if kind <= 5 else 0
        spans[col.STATUS, row] = status
        spans[col.NAME_AT, row], spans[col.NAME_END, row] = name_at, name_end
        spans[col.PAIR_FIRST, row], spans[col.PAIR_LAST, row] = first_pair, counts[col.PAIRS]
        spans[col.BLOCK_AT, row], spans[col.BLOCK_END, row] = block_at, block_end if blocks <= 1 else -1
        spans[col.EVENT_FIRST, row], spans[col.EVENT_LAST, row] = first_event, counts[col.EVENTS]
        counts[col.SPANS] += 1
    return int(counts[col.SPANS])
