"""Encodes parts of protobuf messages (https://protobuf.dev/programming-guides/encoding/), where building a message out of
objects would cost several times as much.
"""


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


SHORT = tuple(_varint(value) for value in range(4096))
"""The first numbers: nearly all lengths and counts of tokens are among them."""
_BYTES = tuple(bytes((value,)) for value in range(256))


def varint(value: int) -> bytes:
    return SHORT[value] if value < 4096 else _varint(value)


def read_varint(raw: bytes, at: int) -> tuple[int, int]:
    """The number at `at` in `raw`, and where it ends. One that is cut off is as large as `raw` is long."""
    value = shift = 0
    for byte in raw[at : at + 10]:
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    return len(raw), at


def field(tag: int, payload: bytes) -> bytes:
    """A length-delimited field; `tag` is the field's number and wire type 2, in one byte."""
    size = len(payload)
    return _BYTES[tag] + (SHORT[size] if size < 4096 else _varint(size)) + payload
