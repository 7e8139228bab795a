"""Reads the spans of a protobuf body with the compiled kernel, some thousand at a time."""

import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .columnar import Scanned
from .groups import Group
from .kernel import columns
from .kernel.locate import locate
from .kernel.read import read_spans
from .links import links_of
from .pairs import parsed
from .span_faults import ANY, REASONS, Bounds
from .wire import MAX_MESSAGE_BYTES

_MAX_SPANS, _MAX_BYTES = 4096, 2**20  # read at once


class Layout(NamedTuple):
    """Where the spans of a body lie, and their resources and scopes (see `kernel.columns`)."""

    places: columns.Numbers
    groups: columns.Numbers


class _Room(threading.local):
    """Arrays that are reused from body to body, one set per thread. They only grow."""

    def __init__(self) -> None:
        self._arrays: dict[str, columns.Numbers] = {}

    def rows(self, name: str, rows: int, width: int) -> columns.Numbers:
        array = self._arrays.get(name)
        if array is None or len(array) < rows:
            array = self._arrays[name] = np.empty((rows, width), np.int64)
        return array


_room = _Room()


def layout_of(body: bytes) -> Layout | None:
    """None where the parser must read the body."""
    places = np.empty((columns.PLACE_ROWS, len(body) // 32 + 16), np.int64)
    groups = np.empty((len(body) // 64 + 16, columns.GROUP_COLUMNS), np.int64)
    spans, used = locate(np.frombuffer(body, np.uint8), places, groups)
    return None if spans < 0 else Layout(places[:, :spans].copy(), groups[:used].copy())


def chunks(layout: Layout) -> list[tuple[int, int]]:
    """The first and last span of each chunk that is read at once, which bounds memory for bodies of any size."""
    ends = layout.places[columns.PLACE_END]
    cuts, first = [], 0
    while first < len(ends):
        fit = int(np.searchsorted(ends, layout.places[columns.PLACE_AT, first] + _MAX_BYTES, "right"))
        last = max(first + 1, min(first + _MAX_SPANS, fit))
        cuts.append((first, last))
        first = last
    return cuts


def scan(
    body: bytes,
    layout: Layout,
    first: int,
    last: int,
    groups: Sequence[Group],
    shard: int = 0,
    shards: int = 1,
    within: Bounds = ANY,
) -> Scanned | None:
    """The valid spans of this shard from `first` to `last`; None where the parser must read them. Raises MalformedError."""
    arrays = _read(body, layout, first, last, within, shard, shards)
    if arrays is None:
        return None
    _, ids, spans, pairs, events, event_pairs = arrays
    of_spans = layout.places[columns.PLACE_GROUP]
    first_group, last_group = int(of_spans[first]), int(of_spans[last - 1])
    spans = spans.copy()
    spans[columns.GROUP] -= first_group  # only their own groups: each is as long as its resource
    own = groups[first_group : last_group + 1]
    return Scanned(body, own, ids, spans, pairs.copy(), events.copy(), event_pairs.copy())


def judge(body: bytes, layout: Layout, first: int, last: int, within: Bounds = ANY) -> dict[str, int] | None:
    """Counts of refused spans by reason; None where the parser must read them. Raises MalformedError."""
    arrays = _read(body, layout, first, last, within, 0, 1)
    if arrays is None:
        return None
    counts = arrays[0]
    return {reason: int(number) for reason, number in zip(REASONS, counts[columns.FAULTS :], strict=True) if number}


def _read(
    body: bytes, layout: Layout, first: int, last: int, within: Bounds, shard: int, shards: int
) -> tuple[columns.Numbers, columns.Bytes, columns.Numbers, columns.Numbers, columns.Numbers, columns.Numbers] | None:
    size = min(
        int((layout.places[columns.PLACE_END] - layout.places[columns.PLACE_AT])[first:last].sum()),
        8 * MAX_MESSAGE_BYTES,
    )
    number = last - first
    counts = np.empty(columns.COUNTS, np.int64)
    ids, spans = np.empty((number, 32), np.uint8), np.empty((columns.SPAN_ROWS, number), np.int64)
    pairs = _room.rows("pairs", size // 8 + 16, columns.PAIR_COLUMNS)
    events = _room.rows("events", size // 16 + 16, columns.EVENT_COLUMNS)
    event_pairs = _room.rows("event pairs", size // 8 + 16, columns.PAIR_COLUMNS)
    written = read_spans(
        np.frombuffer(body, np.uint8), layout.places, first, last, MAX_MESSAGE_BYTES, within.earliest_ns, within.latest_ns, shard, shards,
        ids, spans, pairs, events, event_pairs, counts,
    )  # fmt: skip
    if written < 0:
        return None
    pairs, event_pairs = pairs[: counts[columns.PAIRS]], event_pairs[: counts[columns.EVENT_PAIRS]]
    for read in (pairs, event_pairs):
        for row in read[read[:, columns.TYPE] == columns.ODD].tolist():
            parsed(body[row[columns.PAIR_AT] : row[columns.PAIR_END]])
    linked = spans[columns.LINKS_AT : columns.LINKS_END + 1, :written]
    for links_at, links_end in linked[:, linked[1] > linked[0]].T.tolist():
        links_of(body[links_at:links_end])
    return counts, ids[:written], spans[:, :written], pairs, events[: counts[columns.EVENTS]], event_pairs
