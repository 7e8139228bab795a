"""Encodes and decodes HTTP/2 frames (RFC 9113) and stateless HPACK (RFC 7541), as far as the gRPC client needs them."""

import struct
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import unquote

from hpack import Decoder, HPACKError

from inference.contract.errors import PermanentError

DATA, HEADERS, PRIORITY_FRAME, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE = 1, 2, 3, 4, 5
NO_ERROR, REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM = 0x0, 0x7, 0x8, 0xB

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD_BYTES = 9
MESSAGE_HEAD_BYTES = 5
DEFAULT_WINDOW = 65_535
DEFAULT_MAX_FRAME = 16_384

_head = struct.Struct(">HBBBI")
_u32 = struct.Struct(">I")
_setting = struct.Struct(">HI")
_message_head = struct.Struct(">BI")


class ProtocolError(PermanentError):
    """The peer does not speak HTTP/2 as the gateway understands it, so the connection has to end."""


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    size = len(payload)
    return _head.pack(size >> 8, size & 0xFF, kind, flags, stream) + payload


def parse_head(buffer: bytes | bytearray, at: int) -> tuple[int, int, int, int]:
    """(payload length, kind, flags, stream) of the frame that starts at `at`."""
    high, low, kind, flags, stream = _head.unpack_from(buffer, at)
    return (high << 8) | low, kind, flags, stream & 0x7FFFFFFF


def settings(values: Iterable[tuple[int, int]]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(_setting.pack(key, value) for key, value in values))


def parse_settings(payload: bytes) -> list[tuple[int, int]]:
    if len(payload) % 6:
        raise ProtocolError("a SETTINGS frame whose length is not a multiple of 6")
    return [(key, value) for key, value in _setting.iter_unpack(payload)]


def u32(payload: bytes) -> int:
    if len(payload) < 4:
        raise ProtocolError("a frame is cut short")
    return int(_u32.unpack_from(payload)[0])


def window_update(stream: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, _u32.pack(increment))


def reset(stream: int, code: int) -> bytes:
    return frame(RST_STREAM, 0, stream, _u32.pack(code))


def message(body: bytes) -> bytes:
    """A gRPC message: a flag that says not compressed, the length, and the body."""
    return _message_head.pack(0, len(body)) + body


parse_message_head = _message_head.unpack_from
"""(whether it is compressed, length) of the gRPC message that starts at an offset."""


def unpad(flags: int, payload: bytes) -> bytes:
    """The payload of a DATA or HEADERS frame without padding and priority."""
    end = len(payload)
    start = 0
    if flags & PADDED and payload:
        start, end = 1, end - payload[0]
    elif flags & PADDED:
        raise ProtocolError("a frame without the length of its padding")
    if flags & PRIORITY:
        start += 5
    if start > end:
        raise ProtocolError("more padding than payload")
    return payload[start:end]


def _length(value: int) -> bytes:
    """An integer with a prefix of 7 bits (RFC 7541, 5.1)."""
    if value < 0x7F:
        return bytes((value,))
    out = bytearray((0x7F,))
    value -= 0x7F
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def literal(name: bytes, value: bytes) -> bytes:
    """One header, literal without indexing and without Huffman coding: it never touches the peer's dynamic table."""
    return b"\x00" + _length(len(name)) + name + _length(len(value)) + value


@lru_cache(maxsize=512)
def decode_headers(block: bytes) -> dict[bytes, bytes]:
    """The headers of one block.

    The gateway announces a dynamic table of size 0, so a block means the same whatever came before it. A server sends
    few different blocks, and each is decoded once.
    """
    decoder = Decoder()
    decoder.max_allowed_table_size = 0
    decoder.header_table_size = 0
    try:
        return {bytes(name): bytes(value) for name, value in decoder.decode(block, raw=True)}
    except HPACKError as error:
        raise ProtocolError(f"headers that cannot be read: {error}") from error


def grpc_message(raw: bytes) -> str:
    """`grpc-message` is percent-encoded UTF-8."""
    return unquote(raw.decode("ascii", "replace"))
