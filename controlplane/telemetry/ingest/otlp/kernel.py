"""An ExportTraceServiceRequest read into arrays, in compiled code: no Python object per span.

It knows what exporters send. Whatever else it meets (an unknown field, a field out of shape, text that is not UTF-8) makes it give the
body up (UNUSUAL), and the parser reads that one: there is one judge of what is well-formed. Every read is bounded by hand.

Arrays of spans are rows of numbers, one per column below, and `ids` (trace, span and parent id, 32 bytes a span). Pairs are attributes:
where their bytes, key and value lie. https://protobuf.dev/programming-guides/encoding/
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .compiled import compiled

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]

UNUSUAL = -1

# Columns of `groups`: which resource and scope a span belongs to.
RESOURCE_AT, RESOURCE_END, SCOPE_AT, SCOPE_END = range(4)
GROUP_COLUMNS = 4

# Rows of `places`: where a span lies.
PLACE_AT, PLACE_END, PLACE_GROUP = range(3)
PLACE_ROWS = 3

# Rows of `spans`.
(
    START,
    END,
    KIND,
    STATUS,
    NAME_AT,
    NAME_END,
    PAIR_FIRST,
    PAIR_LAST,
    BLOCK_AT,
    BLOCK_END,
    EVENT_FIRST,
    EVENT_LAST,
    SIZE,
    GROUP,
    TRACE,
) = range(15)
SPAN_ROWS = 15

# Columns of `pairs`. VALUE is where text begins, or the integer or boolean itself, or where the 8 bytes of a double lie.
PAIR_AT, PAIR_END, KEY_AT, KEY_END, TYPE, VALUE, VALUE_END = range(7)
PAIR_COLUMNS = 7
TEXT, INTEGER, BOOLEAN, DOUBLE, ODD = range(5)

# Columns of `events`.
EVENT_NS, EVENT_NAME_AT, EVENT_NAME_END, EVENT_PAIR_FIRST, EVENT_PAIR_LAST = range(5)
EVENT_COLUMNS = 5

# What `read` counts: rows written, faults by kind (the order of `faults.REASONS`), and how much room texts take.
SPANS, PAIRS, EVENTS, EVENT_PAIRS = range(4)
FAULTS, FAULT_KINDS = 4, 8
COUNTS = FAULTS + FAULT_KINDS

_MOST_PAIRS = 128  # of one span: their keys are compared with one another
_LATEST_NS = 2**63 - 1


@compiled
def _extent(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Where the content lies whose length is written at `at`; (-1, -1) where it does not end by `end`."""
    length, shift = 0, 0
    while at < end and shift < 35:
        byte: Any = np.int64(data[at])
        at += 1
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            if at + length > end:
                break
            return at, at + length
        shift += 7
    return -1, -1


@compiled
def _is_utf8(data: Bytes, at: int, end: int) -> bool:
    while at < end:
        byte = data[at]
        if byte < 0x80:
            at += 1
            continue
        if 0xC2 <= byte <= 0xDF:
            more = 1
        elif 0xE0 <= byte <= 0xEF:
            more = 2
        elif 0xF0 <= byte <= 0xF4:
            more = 3
        else:
            return False
        if at + more >= end:
            return False
        second = data[at + 1]
        if (
            (byte == 0xE0 and second < 0xA0)
            or (byte == 0xED and second > 0x9F)
            or (byte == 0xF0 and second < 0x90)
            or (byte == 0xF4 and second > 0x8F)
        ):
            return False
        for step in range(1, more + 1):
            if data[at + step] & 0xC0 != 0x80:
                return False
        at += more + 1
    return True


@compiled
def find(data: Bytes, places: Numbers, groups: Numbers) -> tuple[int, int]:
    """Where the spans lie, and of which resource and scope: how many spans and groups were found, or UNUSUAL (no room too)."""
    spans, found = 0, 0
    at, end = 0, len(data)
    while at < end:
        if data[at] != 0x0A:
            return UNUSUAL, 0
        at, resource_end = _extent(data, at + 1, end)
        if at < 0:
            return UNUSUAL, 0
        first, resource, resource_stop = found, -1, -1
        while at < resource_end:
            tag = data[at]
            at, stop = _extent(data, at + 1, resource_end)
            if at < 0:
                return UNUSUAL, 0
            if tag == 0x0A and resource < 0:
                resource, resource_stop = at, stop
            elif tag == 0x12:
                if found >= groups.shape[0]:
                    return UNUSUAL, 0
                group, found = found, found + 1
                groups[group, SCOPE_AT] = groups[group, SCOPE_END] = -1
                inner = at
                while inner < stop:
                    tag = data[inner]
                    inner, span_end = _extent(data, inner + 1, stop)
                    if inner < 0:
                        return UNUSUAL, 0
                    if tag == 0x12:
                        if spans >= places.shape[1]:
                            return UNUSUAL, 0
                        places[PLACE_AT, spans] = inner
                        places[PLACE_END, spans] = span_end
                        places[PLACE_GROUP, spans] = group
                        spans += 1
                    elif tag == 0x0A and groups[group, SCOPE_AT] < 0:
                        groups[group, SCOPE_AT], groups[group, SCOPE_END] = inner, span_end
                    elif tag != 0x1A:  # the schema's URL
                        return UNUSUAL, 0
                    inner = span_end
            elif tag != 0x1A:
                return UNUSUAL, 0
            at = stop
        for group in range(first, found):
            groups[group, RESOURCE_AT], groups[group, RESOURCE_END] = resource, resource_stop
    return spans, found


@compiled
def _pair(data: Bytes, at: int, end: int, pairs: Numbers, row: int) -> bool:
    """A KeyValue into `pairs[row]`; ODD where only the parser can say what its value is. False where the pair itself is unusual."""
    if at >= end or data[at] != 0x0A:
        return False
    key, key_end = _extent(data, at + 1, end)
    if key < 0 or not _is_utf8(data, key, key_end):
        return False
    pairs[row, PAIR_AT], pairs[row, PAIR_END] = at, end
    pairs[row, KEY_AT], pairs[row, KEY_END] = key, key_end
    pairs[row, TYPE], pairs[row, VALUE], pairs[row, VALUE_END] = TEXT, end, end
    if key_end == end:
        return True
    if data[key_end] != 0x12:
        return False
    value, stop = _extent(data, key_end + 1, end)
    if value < 0 or stop != end:
        return False
    if value == stop:
        return True
    pairs[row, TYPE] = ODD
    tag = data[value]
    if tag == 0x0A:
        text, text_end = _extent(data, value + 1, stop)
        if text_end == stop and (text == stop or data[text] != 1):
            if not _is_utf8(data, text, stop):
                return False
            pairs[row, TYPE], pairs[row, VALUE] = TEXT, text
    elif tag == 0x18 and stop - value <= 10:
        number, shift = np.int64(0), 0
        for position in range(value + 1, stop):
            byte = np.int64(data[position])
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                if position == stop - 1:
                    pairs[row, TYPE], pairs[row, VALUE] = INTEGER, number
                break
    elif tag == 0x10 and stop - value == 2 and data[value + 1] < 2:
        pairs[row, TYPE], pairs[row, VALUE] = BOOLEAN, data[value + 1]
    elif tag == 0x21 and stop - value == 9:
        pairs[row, TYPE], pairs[row, VALUE] = DOUBLE, value + 1
    return True


@compiled
def _distinct(data: Bytes, pairs: Numbers, first: int, last: int) -> bool:
    """Whether no key stands twice."""
    if last - first > _MOST_PAIRS:
        return False
    for one in range(first, last):
        at, size = pairs[one, KEY_AT], pairs[one, KEY_END] - pairs[one, KEY_AT]
        for other in range(first, one):
            there = pairs[other, KEY_AT]
            if pairs[other, KEY_END] - there != size or (size and data[there + size - 1] != data[at + size - 1]):
                continue
            step = 0
            while step < size and data[there + step] == data[at + step]:
                step += 1
            if step == size:
                return False
    return True


@compiled
def _u64(data: Bytes, at: int) -> int:
    """Eight bytes as a signed number: what does not fit is negative."""
    value: Any = np.int64(0)
    for step in range(8):
        value |= np.int64(data[at + step]) << (8 * step)
    return int(value)


@compiled
def _event(data: Bytes, at: int, end: int, events: Numbers, pairs: Numbers, counts: Numbers) -> bool:
    row = counts[EVENTS]
    if row >= events.shape[0]:
        return False
    events[row, EVENT_NS] = 0
    events[row, EVENT_NAME_AT] = events[row, EVENT_NAME_END] = at
    events[row, EVENT_PAIR_FIRST] = counts[EVENT_PAIRS]
    while at < end:
        tag = data[at]
        if tag == 0x09:
            if at + 9 > end:
                return False
            events[row, EVENT_NS] = _u64(data, at + 1)
            if events[row, EVENT_NS] < 0:
                events[row, EVENT_NS] = _LATEST_NS
            at += 9
        elif tag == 0x12 or tag == 0x1A:
            at, stop = _extent(data, at + 1, end)
            if at < 0:
                return False
            if tag == 0x12:
                if not _is_utf8(data, at, stop):
                    return False
                events[row, EVENT_NAME_AT], events[row, EVENT_NAME_END] = at, stop
            else:
                pair = counts[EVENT_PAIRS]
                if pair >= pairs.shape[0] or not _pair(data, at, stop, pairs, pair):
                    return False
                counts[EVENT_PAIRS] += 1
            at = stop
        else:
            return False
    events[row, EVENT_PAIR_LAST] = counts[EVENT_PAIRS]
    counts[EVENTS] += 1
    return _distinct(data, pairs, events[row, EVENT_PAIR_FIRST], events[row, EVENT_PAIR_LAST])


@compiled
def _status(data: Bytes, at: int, end: int) -> int:
    """The status code, 0 where it is none of OTLP's; UNUSUAL."""
    code: Any = 0
    while at < end:
        if data[at] == 0x18 and at + 1 < end and data[at + 1] < 0x80:
            code = np.int64(data[at + 1])
            at += 2
        elif data[at] == 0x12:
            at, stop = _extent(data, at + 1, end)
            if at < 0 or not _is_utf8(data, at, stop):
                return UNUSUAL
            at = stop
        else:
            return UNUSUAL
    return code if code <= 2 else 0


@compiled
def _id(data: Bytes, at: int, end: int, ids: Bytes, row: int, first: int, size: int) -> bool:
    """Copy an id; False where it has another length or is all zeros."""
    if end - at != size:
        return False
    any_set: Any = np.uint8(0)
    for step in range(size):
        ids[row, first + step] = data[at + step]
        any_set |= data[at + step]
    return bool(any_set != 0)


@compiled
def read(
    data: Bytes, places: Numbers, first: int, last: int, largest: int, earliest_ns: int, latest_ns: int, shard: int, shards: int,
    ids: Bytes, spans: Numbers, pairs: Numbers, events: Numbers, event_pairs: Numbers, counts: Numbers,
) -> int:  # fmt: skip
    """Read the spans at `places[:, first:last]` that are of this shard. Those that are refused are counted, the others written.

    How many were written, or UNUSUAL: then nothing of what was written means anything.
    """
    counts[:] = 0
    for place in range(first, last):
        at, end = places[PLACE_AT, place], places[PLACE_END, place]
        if end - at > largest:
            counts[FAULTS] += 1
            continue
        if (
            shards > 1
            and end - at >= 18
            and data[at] == 0x0A
            and data[at + 1] == 16
            and data[at + 17] % shards != shard
        ):
            continue
        row = counts[SPANS]
        first_pair, first_event, first_event_pair = counts[PAIRS], counts[EVENTS], counts[EVENT_PAIRS]
        trace_at = trace_end = span_at = span_end = parent_at = parent_end = name_at = name_end = at
        kind: Any = 0
        status, start_ns, end_ns = 0, 0, 0
        block_at, block_end, blocks = at, at, 0
        spans[SIZE, row], spans[GROUP, row] = end - at, places[PLACE_GROUP, place]
        while at < end:
            tag = data[at]
            if tag == 0x39 or tag == 0x41:
                if at + 9 > end:
                    return UNUSUAL
                if tag == 0x39:
                    start_ns = _u64(data, at + 1)
                else:
                    end_ns = _u64(data, at + 1)
                at += 9
            elif tag == 0x30:
                if at + 1 >= end or data[at + 1] > 0x7F:
                    return UNUSUAL
                kind = np.int64(data[at + 1])
                at += 2
            elif tag == 0x85:  # flags
                if at + 6 > end or data[at + 1] != 1:
                    return UNUSUAL
                at += 6
            elif tag == 0x50 or tag == 0x60 or tag == 0x70:  # what was dropped
                if at + 1 >= end or data[at + 1] > 0x7F:
                    return UNUSUAL
                at += 2
            else:
                field = at
                at, stop = _extent(data, at + 1, end)
                if at < 0:
                    return UNUSUAL
                if tag == 0x4A:
                    pair = counts[PAIRS]
                    if pair >= pairs.shape[0] or not _pair(data, at, stop, pairs, pair):
                        return UNUSUAL
                    counts[PAIRS] += 1
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
                    if not _is_utf8(data, at, stop):
                        return UNUSUAL
                    name_at, name_end = at, stop
                elif tag == 0x5A:
                    if not _event(data, at, stop, events, event_pairs, counts):
                        return UNUSUAL
                elif tag == 0x7A:
                    status = _status(data, at, stop)
                    if status == UNUSUAL:
                        return UNUSUAL
                elif tag == 0x1A:  # the trace's state
                    if not _is_utf8(data, at, stop):
                        return UNUSUAL
                else:
                    return UNUSUAL
                at = stop
        if not _distinct(data, pairs, first_pair, counts[PAIRS]):
            return UNUSUAL
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
            for pair in range(first_pair, counts[PAIRS]):
                if pairs[pair, TYPE] == ODD:
                    return UNUSUAL
            for pair in range(first_event_pair, counts[EVENT_PAIRS]):
                if event_pairs[pair, TYPE] == ODD:
                    return UNUSUAL
            counts[FAULTS + fault] += 1
            counts[PAIRS], counts[EVENTS], counts[EVENT_PAIRS] = first_pair, first_event, first_event_pair
            continue
        if shards > 1 and ids[row, 15] % shards != shard:
            counts[PAIRS], counts[EVENTS], counts[EVENT_PAIRS] = first_pair, first_event, first_event_pair
            continue
        spans[START, row], spans[END, row] = start_ns, max(start_ns, end_ns)
        spans[KIND, row] = kind if kind <= 5 else 0
        spans[STATUS, row] = status
        spans[NAME_AT, row], spans[NAME_END, row] = name_at, name_end
        spans[PAIR_FIRST, row], spans[PAIR_LAST, row] = first_pair, counts[PAIRS]
        spans[BLOCK_AT, row], spans[BLOCK_END, row] = block_at, block_end if blocks <= 1 else -1
        spans[EVENT_FIRST, row], spans[EVENT_LAST, row] = first_event, counts[EVENTS]
        counts[SPANS] += 1
    return int(counts[SPANS])


@compiled
def group(
    ids: Any, spans: Numbers, number: int, table: Numbers, order: Numbers, offsets: Numbers, sums: Numbers
) -> int:
    """Put spans together by trace: `order[offsets[t]:offsets[t + 1]]` are trace t's, as they came. How many traces.

    `ids` holds each span's ids as four 64-bit numbers, `table` is as large as a power of two of at least twice `number`, all -1;
    `sums[t]` becomes the trace's bytes and when its earliest span started.
    """
    mask = len(table) - 1
    traces = 0
    for row in range(number):
        slot = np.int64((ids[row, 0] ^ (ids[row, 1] >> np.uint64(7))) & np.uint64(mask))
        while True:
            known = table[slot]
            if known < 0:
                table[slot] = row
                spans[TRACE, row] = traces
                offsets[traces] = 0
                sums[traces, 0], sums[traces, 1] = 0, _LATEST_NS
                traces += 1
                break
            if ids[known, 0] == ids[row, 0] and ids[known, 1] == ids[row, 1]:
                spans[TRACE, row] = spans[TRACE, known]
                break
            slot = (slot + 1) & mask
        trace = spans[TRACE, row]
        offsets[trace] += 1
        sums[trace, 0] += spans[SIZE, row]
        sums[trace, 1] = min(sums[trace, 1], spans[START, row])
    at = 0
    for trace in range(traces):
        size = offsets[trace]
        offsets[trace] = at
        at += size
    for row in range(number):
        trace = spans[TRACE, row]
        order[offsets[trace]] = row
        offsets[trace] += 1
    for trace in range(traces, 0, -1):
        offsets[trace] = offsets[trace - 1]
    offsets[0] = 0
    return traces


@compiled
def gather(data: Bytes, starts: Numbers, ends: Numbers, offsets: NDArray[np.int32], out: Bytes) -> int:
    """Copy `data[starts[i]:ends[i]]` one after the other into `out`: how many bytes. `offsets` has one more than they are."""
    at = 0
    for item in range(len(starts)):
        offsets[item] = at
        for position in range(starts[item], ends[item]):
            out[at] = data[position]
            at += 1
    offsets[len(starts)] = at
    return at


@compiled
def texts(
    data: Bytes,
    pairs: Numbers,
    number: int,
    written: Bytes,
    written_at: Numbers,
    offsets: NDArray[np.int32],
    out: Bytes,
) -> int:
    """Each pair's value as text into `out`, whatever `columns.attribute_text` says: how many bytes, or UNUSUAL where room is short.

    Those of type DOUBLE and ODD were written before, one after the other: the nth is `written[written_at[n]:written_at[n + 1]]`.
    """
    at, done = 0, 0
    digits = np.empty(20, np.uint8)
    for row in range(number):
        offsets[row] = at
        kind, value = pairs[row, TYPE], pairs[row, VALUE]
        if kind == TEXT:
            for position in range(value, pairs[row, VALUE_END]):
                out[at] = data[position]
                at += 1
        elif kind == INTEGER:
            out[at] = 1
            at += 1
            count = 0
            while value > 9 or count == 0:
                digits[count] = 48 + value % 10
                value //= 10
                count += 1
            if value > 0:
                digits[count] = 48 + value
                count += 1
            while count > 0:
                count -= 1
                out[at] = digits[count]
                at += 1
        elif kind == BOOLEAN:
            word = b"\x01true" if value else b"\x01false"
            for position in range(len(word)):
                out[at] = word[position]
                at += 1
        else:
            for position in range(written_at[done], written_at[done + 1]):
                out[at] = written[position]
                at += 1
            done += 1
    offsets[number] = at
    return at
