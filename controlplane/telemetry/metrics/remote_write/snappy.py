"""Decompresses Snappy's block format up to a limit. The block begins with its decompressed size.

https://github.com/google/snappy/blob/main/format_description.txt
"""

import pyarrow as pa

from controlplane.telemetry.ingest.otlp.decode.malformed import MalformedError
from controlplane.telemetry.ingest.otlp.decode.wire import varint

_codec = pa.Codec("snappy")


class TooLargeError(Exception):
    """The decompressed size is above the limit; permanent."""


def decompress(block: bytes, limit: int) -> bytes:
    """Raises TooLargeError, MalformedError."""
    try:
        size, _ = varint(block, 0)
    except IndexError:
        raise MalformedError("the body is not a snappy block: it has no length") from None
    if size > limit:
        raise TooLargeError
    try:
        return bytes(_codec.decompress(block, size, asbytes=True)) if size else b""
    except (OSError, pa.ArrowException) as error:
        raise MalformedError("the body is not a snappy block (the block format, not the framed one)") from error
