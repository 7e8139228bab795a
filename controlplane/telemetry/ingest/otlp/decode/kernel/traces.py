"""Groups spans by trace."""

from typing import Any

import numpy as np

from controlplane.telemetry.ingest.compiled import compiled

from .columns import GROUP, LATEST_NS, SIZE, START, TRACE, Numbers


@compiled
def group_by_trace(
    ids: Any, spans: Numbers, whole: Any, number: int, table: Numbers, order: Numbers, offsets: Numbers, sums: Numbers
) -> int:
    """Group spans by trace: `order[offsets[t]:offsets[t + 1]]` become the spans of trace t in their order. Returns the number of traces.

    `ids` has each span's ids as four 64-bit numbers. The size of `table` must be a power of two of at least twice `number`, all -1.
    `sums[t]` becomes the trace's bytes, the start of its earliest span, and 1 where it has a root: a span without a parent, or of a group
    that `whole` marks.
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
                sums[traces, 0], sums[traces, 1], sums[traces, 2] = 0, LATEST_NS, 0
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
        if ids[row, 3] == 0 or whole[spans[GROUP, row]]:
            sums[trace, 2] = 1
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
