"""Reads the fields of protobuf messages that spans and events share. Every read is checked against the end of the message."""

from typing import Any

import numpy as np

from controlplane.telemetry.ingest.compiled import compiled

from . import columns as col
from .columns import Bytes, Numbers

_MAX_PAIRS = 128  # of one span: each key is compared with all others


@compiled
def extent(data: Bytes, at: int, end: int) -> tuple[int, int]:
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
def is_utf8(data: Bytes, at: int, end: int) -> bool:
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
def u64(data: Bytes, at: int) -> int:
    """Eight bytes as a signed number. A number that does not fit is negative."""
    value: Any = np.int64(0)
    for step in range(8):
        value |= np.int64(data[at + step]) << (8 * step)
    return int(value)


@compiled
def read_pair(data: Bytes, at: int, end: int, pairs: Numbers, row: int) -> bool:
    """Read a KeyValue into `pairs[row]`, as ODD where the parser must read its value. False where the kernel cannot read the pair."""
    if at >= end or data[at] != 0x0A:
        return False
    key, key_end = extent(data, at + 1, end)
    if key < 0 or not is_utf8(data, key, key_end):
        return False
    pairs[row, col.PAIR_AT], pairs[row, col.PAIR_END] = at, end
    pairs[row, col.KEY_AT], pairs[row, col.KEY_END] = key, key_end
    pairs[row, col.TYPE], pairs[row, col.VALUE], pairs[row, col.VALUE_END] = col.TEXT, end, end
    if key_end == end:
        return True
    if data[key_end] != 0x12:
        return False
    value, stop = extent(data, key_end + 1, end)
    if value < 0 or stop != end:
        return False
    if value == stop:
        return True
    pairs[row, col.TYPE] = col.ODD
    tag = data[value]
    if tag == 0x0A:
        text, text_end = extent(data, value + 1, stop)
        if text_end == stop and (text == stop or data[text] != 1):
            if not is_utf8(data, text, stop):
                return False
            pairs[row, col.TYPE], pairs[row, col.VALUE] = col.TEXT, text
    elif tag == 0x18 and stop - value <= 10:
        number, shift = np.int64(0), 0
        for position in range(value + 1, stop):
            byte = np.int64(data[position])
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                if position == stop - 1:
                    pairs[row, col.TYPE], pairs[row, col.VALUE] = col.INTEGER, number
                break
    elif tag == 0x10 and stop - value == 2 and data[value + 1] < 2:
        pairs[row, col.TYPE], pairs[row, col.VALUE] = col.BOOLEAN, data[value + 1]
    elif tag == 0x21 and stop - value == 9:
        pairs[row, col.TYPE], pairs[row, col.VALUE] = col.DOUBLE, value + 1
    return True


@compiled
def has_distinct_keys(data: Bytes, pairs: Numbers, first: int, last: int) -> bool:
    """Whether every key occurs once."""
    if last - first > _MAX_PAIRS:
        return False
    for row in range(first, last):
        at, size = pairs[row, col.KEY_AT], pairs[row, col.KEY_END] - pairs[row, col.KEY_AT]
        for other in range(first, row):
            there = pairs[other, col.KEY_AT]
            if pairs[other, col.KEY_END] - there != size or (size and data[there + size - 1] != data[at + size - 1]):
                continue
            step = 0
            while step < size and data[there + step] == data[at + step]:
                step += 1
            if step == size:
                return False
    return True
