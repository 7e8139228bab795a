"""HTTP/2 with prior knowledge for the load generator, as raw frames. One connection may have several requests at once."""

import struct
from collections.abc import Callable
from dataclasses import dataclass

from tests.bench.processes import BenchError
from tests.bench.standins.http2 import (
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
    header,
)

_WIDE = 2**30
_OK = 0x88  # `:status: 200` in HPACK's static table
_TABLE_SIZE = 0x20  # may come before it


@dataclass(frozen=True)
class Http2:
    """`at_once` requests leave together, and are answered when all of them are. `body` makes the body of a request."""

    body: Callable[[int], bytes]
    key: str
    at_once: int = 1
    path: str = "/v1/chat/completions"

    def hello(self) -> bytes:
        settings = frame(SETTINGS, 0, 0, struct.pack(">HI", 4, _WIDE))
        return PREFACE + settings + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", _WIDE))

    def request(self, serial: int) -> bytes:
        """The streams of a connection have to grow, as serials do."""
        first = serial * self.at_once
        return b"".join(map(self._one, range(first, first + self.at_once)))

    def _one(self, serial: int) -> bytes:
        body, stream = self.body(serial), 2 * serial + 1
        # POST and http out of the static table; the rest literal.
        block = b"\x83\x86" + header(":path", self.path) + header(":authority", "127.0.0.1")
        block += header("content-type", "application/json") + header("authorization", f"Bearer {self.key}")
        block += header("content-length", str(len(body)))
        return frame(HEADERS, END_HEADERS, stream, block) + frame(DATA, END_STREAM, stream, body)

    def complete(self, received: bytes) -> bool:
        at, ended, size = 0, 0, len(received)
        while size - at >= 9:
            length = received[at] << 16 | received[at + 1] << 8 | received[at + 2]
            kind, flags = received[at + 3], received[at + 4]
            end = at + 9 + length
            if end > size:
                return False
            if kind == HEADERS:
                status = received[at + 9 + (received[at + 9] == _TABLE_SIZE)]
                if status != _OK:
                    raise BenchError(f"answered {received[at : at + 600]!r}")
            elif kind in (GOAWAY, RST_STREAM):
                raise BenchError(f"answered {received[at : at + 600]!r}")
            if kind in (HEADERS, DATA) and flags & END_STREAM:
                ended += 1
            at = end
        return ended >= self.at_once and at == size
