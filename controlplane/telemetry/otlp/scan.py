"""One span out of its bytes, by hand, since reading a parser's objects field by field takes half as long again.

It knows what exporters send. Whatever else it meets (an unknown field, a field out of shape, text that is not UTF-8) it leaves to
the parser by raising Unusual, so that there is one judge of what is well-formed. Attributes repeat from span to span, so
their bytes are looked up before they are read.
"""

from struct import Struct
from struct import error as StructError  # noqa: N812

from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from controlplane.telemetry.spans import AttrValue, Event, Span

from .any_value import value_of
from .faults import LATEST_NS

_U64, _DOUBLE = Struct("<Q").unpack_from, Struct("<d").unpack_from
_MOST_CACHED, _LONGEST_CACHED = 65_536, 256
_NO_PARENT = bytes(8)

Pair = tuple[str, AttrValue]


class Unusual(Exception):  # noqa: N818  (not an error: the parser's turn)
    """Read this span another way."""


class Scanner:
    """Keeps what it has seen of attributes. Not thread-safe."""

    def __init__(self) -> None:
        self._pairs: dict[bytes, Pair] = {}

    def span(self, data: bytes, at: int, end: int, service: str, scope: str) -> Span:
        """The span in `data[at:end]`, valid or not. Raises Unusual."""
        trace_id = span_id = parent_id = b""
        name = ""
        kind = start_ns = end_ns = status = 0
        attributes: dict[str, AttrValue] = {}
        events: list[Event] | None = None
        known = self._pairs
        try:
            while at < end:
                tag = data[at]
                if (
                    tag == 0x4A
                    or tag == 0x0A
                    or tag == 0x12
                    or tag == 0x22
                    or tag == 0x2A
                    or tag == 0x7A
                    or tag == 0x5A
                ):
                    length = data[at + 1]
                    at += 2
                    if length > 127:
                        if data[at] > 127:
                            raise Unusual
                        length += (data[at] << 7) - 128
                        at += 1
                    held = data[at : at + length]
                    at += length
                    if tag == 0x4A:
                        pair = known.get(held) or self._pair(held)
                        attributes[pair[0]] = pair[1]
                    elif tag == 0x0A:
                        trace_id = held
                    elif tag == 0x12:
                        span_id = held
                    elif tag == 0x22:
                        parent_id = held
                    elif tag == 0x2A:
                        name = held.decode()
                    elif tag == 0x5A:
                        events = events or []
                        events.append(self._event(held))
                    elif held:  # status
                        if status or held[0] != 0x18 or length != 2 or held[1] > 127:
                            raise Unusual
                        status = held[1]
                elif tag == 0x39:
                    (start_ns,) = _U64(data, at + 1)
                    at += 9
                elif tag == 0x41:
                    (end_ns,) = _U64(data, at + 1)
                    at += 9
                elif tag == 0x30 and data[at + 1] < 128:
                    kind = data[at + 1]
                    at += 2
                elif tag == 0x85 and data[at + 1] == 1:  # flags, which every SDK sends
                    at += 6
                else:
                    raise Unusual
        except (IndexError, ValueError, StructError):
            raise Unusual from None
        if at != end:
            raise Unusual
        return Span(
            trace_id,
            span_id,
            b"" if parent_id == _NO_PARENT else parent_id,
            name,
            kind if kind <= 5 else 0,
            start_ns,
            end_ns,
            status if status <= 2 else 0,
            service,
            scope,
            attributes,
            tuple(events) if events else (),
        )

    def _event(self, data: bytes) -> Event:
        time_ns, name, at, end = 0, "", 0, len(data)
        attributes: dict[str, AttrValue] = {}
        while at < end:
            tag = data[at]
            if tag == 0x09:
                (time_ns,) = _U64(data, at + 1)
                at += 9
            elif (tag == 0x12 or tag == 0x1A) and data[at + 1] < 128:
                held = data[at + 2 : at + 2 + data[at + 1]]
                at += 2 + data[at + 1]
                if tag == 0x12:
                    name = held.decode()
                else:
                    key, value = self._pairs.get(held) or self._pair(held)
                    attributes[key] = value
            else:
                raise Unusual
        if at != end:
            raise Unusual
        return Event(min(time_ns, LATEST_NS - 1), name, attributes)

    def _pair(self, data: bytes) -> Pair:
        try:
            pair = _pair(data)
        except (Unusual, IndexError, ValueError, StructError):
            pair = _parsed(data)
        if len(data) <= _LONGEST_CACHED:
            if len(self._pairs) >= _MOST_CACHED:
                self._pairs.clear()
            self._pairs[data] = pair
        return pair


def _parsed(data: bytes) -> Pair:
    """A KeyValue of any shape, through the parser."""
    try:
        pair = KeyValue.FromString(data)
    except DecodeError:
        raise Unusual from None
    return pair.key, value_of(pair.value)


def _pair(data: bytes) -> Pair:
    """A KeyValue: its key, then its value, each short. Raises Unusual, IndexError or ValueError for anything else."""
    if data[0] != 0x0A or data[1] > 127:
        raise Unusual
    at = 2 + data[1]
    key = data[2:at].decode()
    if at == len(data):
        return key, ""
    size = data[at + 1]
    start = at + 2
    if size > 127:
        if data[start] > 127:
            raise Unusual
        size += (data[start] << 7) - 128
        start += 1
    if data[at] != 0x12 or start + size != len(data):
        raise Unusual
    return key, _value(data, start) if size else ""


def _value(data: bytes, at: int) -> AttrValue:
    """The AnyValue that fills the rest of `data`, if it is a string, an integer, a double or a boolean."""
    tag, end = data[at], len(data)
    if tag == 0x0A:
        length, start = data[at + 1], at + 2
        if length > 127:
            length += (data[start] << 7) - 128
            start += 1
        if start + length == end and (length < 128 or data[start - 1] < 128):
            return data[start:end].decode()
    elif tag == 0x18:
        value, shift, last = 0, 0, end - 1
        for position in range(at + 1, end):
            byte = data[position]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 128:
                if position == last and shift <= 63:
                    return value
                break
    elif tag == 0x21 and at + 9 == end:
        return float(_DOUBLE(data, at + 1)[0])
    elif tag == 0x10 and at + 2 == end and data[at + 1] < 2:
        return data[at + 1] == 1
    raise Unusual
