"""Reads a body with a bound on memory: it is refused as soon as it grows past the limit."""

import zlib

from . import contract

_STEP = 256 * 1024  # bytes that one step of decompression may yield
_GZIP = 16 + zlib.MAX_WBITS
GZIP_MAGIC = b"\x1f\x8b"


class Body:
    """A body that arrives in chunks, gzip or plain, and becomes one bytes object of at most `limit` bytes.

    Raises RefusedError: 413 past the limit, 400 for broken gzip. Several gzip members one after the other are one body (RFC 1952).
    """

    def __init__(self, *, gzip: bool, limit: int) -> None:
        self._limit, self._parts, self.size = limit, list[bytes](), 0
        self._gzip = zlib.decompressobj(_GZIP) if gzip else None

    def feed(self, chunk: bytes) -> int:
        """Adds a chunk. Returns by how many bytes the body grew."""
        before = self.size
        if self._gzip is None:
            self._add(chunk)
        while chunk and self._gzip is not None:
            if self._gzip.eof:
                self._gzip = zlib.decompressobj(_GZIP)
            self._add(self._inflate(chunk))
            chunk = self._gzip.unused_data if self._gzip.eof else self._gzip.unconsumed_tail
        return self.size - before

    def finish(self) -> bytes:
        while self._gzip is not None and not self._gzip.eof:
            if not (rest := self._inflate(b"")):  # left over by the bound of the last step
                raise contract.bad_data("the gzip body is cut short")
            self._add(rest)
        parts, self._parts = self._parts, []
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _inflate(self, chunk: bytes) -> bytes:
        assert self._gzip is not None
        try:
            return self._gzip.decompress(chunk, _STEP)
        except zlib.error as error:
            raise contract.bad_data("the body is not gzip, although its content encoding says so") from error

    def _add(self, chunk: bytes) -> None:
        self.size += len(chunk)
        if self.size > self._limit:
            self._parts.clear()
            raise contract.too_large(self._limit)
        if chunk:
            self._parts.append(chunk)
