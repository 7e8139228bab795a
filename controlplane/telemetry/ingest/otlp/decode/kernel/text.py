"""Writes names and attribute values as the flat text that Arrow arrays hold."""

import numpy as np
from numpy.typing import NDArray

from controlplane.telemetry.ingest.compiled import compiled

from .columns import BOOLEAN, INTEGER, TEXT, TYPE, VALUE, VALUE_END, Bytes, Numbers


@compiled
def gather(data: Bytes, starts: Numbers, ends: Numbers, offsets: NDArray[np.int32], out: Bytes) -> int:
    """Copy `data[starts[i]:ends[i]]` one after the other into `out`. Returns how many bytes. `offsets` has one element more."""
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
    """Write each pair's value as text into `out`, as `arrow_columns.attribute_text` does. Returns how many bytes.

    The caller has written those of type DOUBLE and ODD: the nth is `written[written_at[n]:written_at[n + 1]]`.
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
