"""Reads and decompresses request bodies up to a limit, so that no client can exhaust this process's memory."""

import asyncio
import zlib
from collections.abc import Callable
from typing import Any

import lz4.frame
from aiohttp import StreamReader
from backports import zstd


class TooLargeError(Exception):
    """Permanent: the body is over the limit, as sent or decompressed."""


class UnreadableError(Exception):
    """Permanent: the encoding is unknown, or the bytes are damaged."""


async def read(stream: StreamReader, encoding: str, limit: int) -> bytes:
    """The whole body of at most `limit` bytes, both as sent and decompressed. Raises TooLargeError, UnreadableError."""
    parts, size = [], 0
    async for part in stream.iter_any():
        size += len(part)
        if size > limit:
            raise TooLargeError(f"the body is over {limit} bytes; send smaller batches")
        parts.append(part)
    data = b"".join(parts)
    if encoding in ("", "identity"):
        return data
    return await asyncio.to_thread(decompress, data, encoding, limit)


def decompress(data: bytes, encoding: str, limit: int) -> bytes:
    """`data` (one or more frames of `encoding`) decompressed, at most `limit` bytes. Raises TooLargeError, UnreadableError."""
    start = _ENCODINGS.get(encoding)
    if start is None:
        raise UnreadableError(f"Content-Encoding {encoding!r} is not known; use one of {', '.join(_ENCODINGS)}")
    parts, left = [], limit
    try:
        while data:
            frame = start()
            while not frame.eof:
                part = frame.decompress(data, left + 1)
                left -= len(part)
                if left < 0:
                    raise TooLargeError(f"the decompressed body is over {limit} bytes; send smaller batches")
                parts.append(part)
                data = getattr(frame, "unconsumed_tail", b"")
                if not part and not data and not frame.eof:
                    raise UnreadableError(f"the {encoding} body ends too early")
            data = frame.unused_data or b""
    except (zlib.error, zstd.ZstdError, RuntimeError, EOFError) as error:
        raise UnreadableError(f"the {encoding} body is damaged: {error}") from error
    return b"".join(parts)


_ENCODINGS: dict[str, Callable[[], Any]] = {
    "gzip": lambda: zlib.decompressobj(wbits=31),
    "deflate": lambda: zlib.decompressobj(wbits=15),
    "zstd": zstd.ZstdDecompressor,
    "lz4": lz4.frame.LZ4FrameDecompressor,
}
