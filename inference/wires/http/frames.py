"""Reads the frames of a client over HTTP/2, and what RFC 9113 says of each by itself: sizes, streams, order, heads."""

from collections.abc import Callable

from hpack import Decoder, HPACKError

from inference.core import http2 as h2
from inference.core.http2_heads import MAX_HEAD_BYTES, Fields

_MAX_BLOCK_BYTES = 64 << 10  # a head as it is sent, over CONTINUATION frames
_MAX_PARTS = 32
_MAX_DECODED_BYTES = 4 * MAX_HEAD_BYTES  # past it a head is not read to its end, and the connection cannot go on
_OF_THE_CONNECTION = (h2.SETTINGS, h2.PING, h2.GOAWAY)
_SIZES = {h2.PRIORITY_FRAME: 5, h2.RST_STREAM: 4, h2.PING: 8, h2.WINDOW_UPDATE: 4}


class FrameReader:
    """`on_frame` gets kind, flags, stream and payload of each frame but those of heads. `on_head` gets the stream, whether
    the request ends with it, and its fields.
    """

    def __init__(
        self, on_frame: Callable[[int, int, int, bytes], None], on_head: Callable[[int, bool, Fields], None]
    ) -> None:
        self._on_frame, self._on_head = on_frame, on_head
        self._rest = b""  # read and not parsed yet
        self._preface = h2.PREFACE  # what is missing of it
        self._settled = False  # the client's settings have come, which have to be first
        self._decoder = Decoder(max_header_list_size=_MAX_DECODED_BYTES)
        self._head: tuple[int, bool, list[bytes]] | None = None  # stream, its end, and parts of a head under way
        self.over = False  # set it to read no more

    @property
    def kept_bytes(self) -> int:
        """Of a frame or a head under way."""
        return len(self._rest) + (sum(map(len, self._head[2])) if self._head is not None else 0)

    def feed(self, data: bytes) -> None:
        """Read whole frames, and keep the rest. Raises ProtocolError."""
        if self._rest:
            data = self._rest + data
        at, size = 0, len(data)
        if self._preface:
            at = min(size, len(self._preface))
            if data[:at] != self._preface[:at]:
                raise h2.ProtocolError("not the preface of HTTP/2")
            self._preface = self._preface[at:]
        while size - at >= h2.HEAD_BYTES and not self.over:
            length, kind, flags, stream = h2.parse_head(data, at)
            if length > h2.DEFAULT_MAX_FRAME:
                raise h2.ProtocolError(f"a frame of {length} bytes", h2.FRAME_SIZE_ERROR)
            end = at + h2.HEAD_BYTES + length
            if end > size:
                break
            self._check(kind, flags, stream, length)
            payload = data[at + h2.HEAD_BYTES : end]
            at = end
            if kind == h2.HEADERS:
                self._part(flags, stream, bool(flags & h2.END_STREAM), [h2.unpad(flags, payload)])
            elif self._head is not None:
                _, ends, parts = self._head
                self._part(flags, stream, ends, [*parts, payload])
            else:
                self._on_frame(kind, flags, stream, payload)
        self._rest = b"" if self.over else data[at:]

    def _check(self, kind: int, flags: int, stream: int, length: int) -> None:
        if not self._settled:
            if kind != h2.SETTINGS or flags & h2.ACK:
                raise h2.ProtocolError("the first frame is not SETTINGS")
            self._settled = True
        if self._head is not None:
            if kind != h2.CONTINUATION or stream != self._head[0]:
                raise h2.ProtocolError("a head is not continued")
        elif kind == h2.CONTINUATION:
            raise h2.ProtocolError("CONTINUATION without a head")
        if kind == h2.PUSH:
            raise h2.ProtocolError("clients do not push")
        if kind < h2.CONTINUATION and kind != h2.WINDOW_UPDATE and bool(stream) is (kind in _OF_THE_CONNECTION):
            raise h2.ProtocolError(f"a frame of kind {kind} on stream {stream}")
        settled = kind == h2.SETTINGS and flags & h2.ACK and length
        if _SIZES.get(kind, length) != length or (kind == h2.GOAWAY and length < 8) or settled:
            raise h2.ProtocolError(f"a frame of kind {kind} with {length} bytes", h2.FRAME_SIZE_ERROR)

    def _part(self, flags: int, stream: int, ends: bool, parts: list[bytes]) -> None:
        if len(parts) > _MAX_PARTS or sum(map(len, parts)) > _MAX_BLOCK_BYTES:
            raise h2.ProtocolError("a head is too long", h2.ENHANCE_YOUR_CALM)
        if not flags & h2.END_HEADERS:
            self._head = (stream, ends, parts)
            return
        self._head = None
        try:  # whatever becomes of it: the heads after it may refer to it
            fields = self._decoder.decode(b"".join(parts), raw=True)
        except HPACKError as error:
            raise h2.ProtocolError(f"a head that cannot be read: {error}", h2.COMPRESSION_ERROR) from None
        self._on_head(stream, ends, fields)
