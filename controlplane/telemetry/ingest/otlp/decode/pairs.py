"""Reads attributes from their bytes, and keeps what it has read, because attributes repeat from span to span."""

from struct import Struct
from struct import error as StructError  # noqa: N812

from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from controlplane.telemetry.core.spans import AttrValue

from .any_value import value_of
from .malformed import MalformedError

_DOUBLE = Struct("<d").unpack_from
_MAX_CACHED, _MAX_CACHED_BYTES = 65_536, 256

Pair = tuple[str, AttrValue]


class _UnusualError(Exception):
    """Permanent: the parser must read these bytes."""


class Pairs:
    """Attributes by their bytes. Not thread-safe."""

    def __init__(self) -> None:
        self.known: dict[bytes, Pair] = {}

    def read(self, data: bytes) -> Pair:
        """A KeyValue. Raises MalformedError."""
        return self.known.get(data) or self._new(data)

    def _new(self, data: bytes) -> Pair:
        try:
            pair = _pair(data)
        except (_UnusualError, IndexError, ValueError, StructError):
            pair = parsed(data)
        if len(data) <= _MAX_CACHED_BYTES:
            if len(self.known) >= _MAX_CACHED:
                self.known.clear()
            self.known[data] = pair
        return pair


def parsed(data: bytes) -> Pair:
    """A KeyValue of any shape, read by the parser. Raises MalformedError."""
    try:
        pair = KeyValue.FromString(data)
    except DecodeError:
        raise MalformedError("the body is not protobuf: a KeyValue that cannot be read") from None
    return pair.key, value_of(pair.value)


def _pair(data: bytes) -> Pair:
    """A KeyValue that consists of a short key and a short value. Raises _UnusualError, IndexError or ValueError for any other."""
    if data[0] != 0x0A or data[1] > 127:
        raise _UnusualError
    at = 2 + data[1]
    key = data[2:at].decode()
    if at == len(data):
        return key, ""
    size = data[at + 1]
    start = at + 2
    if size > 127:
        if data[start] > 127:
            raise _UnusualError
        size += (data[start] << 7) - 128
        start += 1
    if data[at] != 0x12 or start + size != len(data):
        raise _UnusualError
    return key, _value(data, start) if size else ""


def _value(data: bytes, at: int) -> AttrValue:
    """The AnyValue that fills the rest of `data`: a string, an integer, a double or a boolean. Raises as `_pair`."""
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
    raise _UnusualError
