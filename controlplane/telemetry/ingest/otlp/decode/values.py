"""Makes spans as values of the kernel's arrays, one trace at a time, for the ledger."""

from controlplane.telemetry.core.spans import AttrValue, Event, Span

from .groups import Group
from .links import links_of
from .pairs import Pairs

_NO_PARENT = bytes(8)
_NOTHING: dict[str, AttrValue] = {}
_MAX_KNOWN, _MAX_BLOCK, _MAX_NAME_CHARS = 16_384, 8, 256


class Known:
    """Names, attributes and whole blocks of attributes that were read before, because they repeat. Not thread-safe."""

    def __init__(self) -> None:
        self.pairs = Pairs()
        self._names: dict[bytes, str] = {}
        self._blocks: dict[bytes, dict[str, AttrValue]] = {}

    def name(self, data: bytes) -> str:
        known = self._names.get(data)
        if known is None:
            known = data.decode()
            if len(data) <= _MAX_NAME_CHARS:
                if len(self._names) >= _MAX_KNOWN:
                    self._names.clear()
                self._names[data] = known
        return known

    def block(self, data: bytes) -> dict[str, AttrValue] | None:
        return self._blocks.get(data)

    def keep(self, data: bytes, attributes: dict[str, AttrValue]) -> None:
        if len(self._blocks) >= _MAX_KNOWN:
            self._blocks.clear()
        self._blocks[data] = attributes


class Values:
    """A chunk's spans, from plain lists of the columns that `kernel.columns` names: 16 numbers per span (START to LINKS_END), 32 bytes of
    ids per span, 5 numbers per event, and where each attribute's bytes begin and end."""

    def __init__(
        self,
        known: Known,
        data: bytes,
        rows: list[int],
        ids: bytes,
        groups: list[Group],
        events: list[int],
        pairs: list[int],
        event_pairs: list[int],
    ) -> None:
        """`groups` are of each span."""
        self._known, self._data, self._rows, self._ids, self._groups = known, data, rows, ids, groups
        self._events, self._pairs, self._event_pairs = events, pairs, event_pairs

    def spans(self, trace_id: bytes, wanted: list[int]) -> list[Span]:
        data, ids, rows, known = self._data, self._ids, self._rows, self._known
        spans: list[Span] = []
        for row in wanted:
            at = 16 * row
            pair_first, pair_last, block_at, block_end = rows[at + 6], rows[at + 7], rows[at + 8], rows[at + 9]
            if pair_first == pair_last:
                attributes = _NOTHING
            elif block_end < 0 or pair_last - pair_first > _MAX_BLOCK:
                attributes = self._attributes(self._pairs, pair_first, pair_last)
            else:
                block = data[block_at:block_end]
                before = known.block(block)
                if before is None:
                    attributes = self._attributes(self._pairs, pair_first, pair_last)
                    known.keep(block, attributes)
                else:
                    attributes = before
            id_at = 32 * row
            parent_id = ids[id_at + 24 : id_at + 32]
            group = self._groups[row]
            message_at, message_end, links_at, links_end = rows[at + 12], rows[at + 13], rows[at + 14], rows[at + 15]
            spans.append(
                Span(
                    trace_id,
                    ids[id_at + 16 : id_at + 24],
                    b"" if parent_id == _NO_PARENT else parent_id,
                    known.name(data[rows[at + 4] : rows[at + 5]]),
                    rows[at + 2],
                    rows[at],
                    rows[at + 1],
                    rows[at + 3],
                    group.service,
                    group.scope,
                    attributes,
                    self._events_of(rows[at + 10], rows[at + 11]),
                    "" if message_at == message_end else known.name(data[message_at:message_end]),
                    group.resource,
                    () if links_at == links_end else links_of(data[links_at:links_end]),
                )
            )
        return spans

    def _attributes(self, pairs: list[int], first: int, last: int) -> dict[str, AttrValue]:
        data, read = self._data, self._known.pairs
        attributes: dict[str, AttrValue] = {}
        for pair in range(2 * first, 2 * last, 2):
            key, value = read.read(data[pairs[pair] : pairs[pair + 1]])
            attributes[key] = value
        return attributes

    def _events_of(self, first: int, last: int) -> tuple[Event, ...]:
        if first == last:
            return ()
        events, read = self._events, list[Event]()
        for at in range(5 * first, 5 * last, 5):
            pair_first, pair_last = events[at + 3], events[at + 4]
            attributes = (
                _NOTHING if pair_first == pair_last else self._attributes(self._event_pairs, pair_first, pair_last)
            )
            read.append(Event(events[at], self._known.name(self._data[events[at + 1] : events[at + 2]]), attributes))
        return tuple(read)
