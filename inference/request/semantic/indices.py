"""How vectors are kept and searched in the servers that can: which commands are sent, and what their replies say.

A member is the key of an answer in the exact cache.
"""

import struct
import time
from collections.abc import Iterator, Sequence
from typing import Protocol

Command = tuple[bytes | int, ...]

MAX_MEMBERS = 5_000
"""Of a set, and so 10,000 of a bucket; of RediSearch, which compares them one by one in a millisecond, of a bucket."""
_NEAREST = 4  # of each set
_SET, _INDEX, _DOCUMENT = b"weir:semantic:set:", b"weir:semantic:index:", b"weir:semantic:document:"


class VectorIndex(Protocol):
    probe: Command
    """Is refused where the server has nothing of the kind."""

    def note(self, reply: object) -> None:
        """Of the probe."""

    def searches(self, bucket: bytes, vector: Sequence[float], ttl_s: int) -> list[Command]: ...

    def members(self, bucket: bytes, dimensions: int, replies: Sequence[object]) -> Iterator[bytes]:
        """Those that are near, by the replies to `searches`."""
        ...

    def stands(self, bucket: bytes, key: bytes, dimensions: int, ttl_s: int) -> list[Command]:
        """What has to be known before a member is added."""
        ...

    def takes(self, replies: Sequence[object]) -> bool:
        """Whether it may be added, by the replies to `stands`."""
        ...

    def adds(self, bucket: bytes, key: bytes, vector: Sequence[float], ttl_s: int) -> list[Command]: ...


class VectorSets:
    """Of Redis 8: two sets of each bucket, which are written and expire in turn. A member is never removed, nor changed: VREM and VADD with
    CAS have crashed Redis 8.
    """

    probe: Command = (b"VCARD", _SET + b"none")

    def note(self, reply: object) -> None: ...

    def searches(self, bucket: bytes, vector: Sequence[float], ttl_s: int) -> list[Command]:
        now = int(time.time()) // ttl_s
        return [
            (b"VSIM", _set_of(bucket, number), b"FP32", _blob(vector), b"COUNT", _NEAREST) for number in (now, now - 1)
        ]

    def members(self, bucket: bytes, dimensions: int, replies: Sequence[object]) -> Iterator[bytes]:
        return (key for reply in replies if isinstance(reply, list) for key in reply if isinstance(key, bytes))

    def stands(self, bucket: bytes, key: bytes, dimensions: int, ttl_s: int) -> list[Command]:
        name = _set_of(bucket, int(time.time()) // ttl_s)
        return [(b"VCARD", name), (b"VISMEMBER", name, key)]

    def takes(self, replies: Sequence[object]) -> bool:
        size, has = replies
        return isinstance(size, int) and size < MAX_MEMBERS and not has

    def adds(self, bucket: bytes, key: bytes, vector: Sequence[float], ttl_s: int) -> list[Command]:
        name = _set_of(bucket, int(time.time()) // ttl_s)
        return [(b"VADD", name, b"FP32", _blob(vector), key, b"Q8"), (b"EXPIRE", name, 2 * ttl_s)]


class SearchIndex:
    """Of RediSearch: a document of each text, which expires, in one index for all vectors of a length. The texts of the bucket are compared
    one by one, so that what is near is what is nearest.
    """

    probe: Command = (b"FT._LIST",)

    def __init__(self) -> None:
        self._made = frozenset[bytes]()

    def note(self, reply: object) -> None:
        self._made = (
            frozenset(name for name in reply if isinstance(name, bytes)) if isinstance(reply, list) else self._made
        )

    def searches(self, bucket: bytes, vector: Sequence[float], ttl_s: int) -> list[Command]:
        name = _INDEX + b"%d" % len(vector)
        if name not in self._made:
            return []
        query = b"(@bucket:{%s})=>[KNN %d @vector $near HYBRID_POLICY ADHOC_BF]" % (bucket.hex().encode(), 2 * _NEAREST)
        given = (b"PARAMS", 2, b"near", _blob(vector), b"NOCONTENT", b"DIALECT", 2)
        return [(b"FT.SEARCH", name, query, *given)]

    def members(self, bucket: bytes, dimensions: int, replies: Sequence[object]) -> Iterator[bytes]:
        start = len(_document(bucket, b"", dimensions))
        return (key[start:] for reply in replies if isinstance(reply, list) for key in reply[1:])

    def stands(self, bucket: bytes, key: bytes, dimensions: int, ttl_s: int) -> list[Command]:
        name = _INDEX + b"%d" % dimensions
        has: Command = (b"EXISTS", _document(bucket, key, dimensions))
        if name in self._made:
            tag = b"@bucket:{%s}" % bucket.hex().encode()
            return [has, (b"FT.SEARCH", name, tag, b"NOCONTENT", b"LIMIT", 0, 0, b"DIALECT", 2)]
        self._made |= {name}
        fields = (b"bucket", b"TAG", b"vector", b"VECTOR", b"FLAT", 6, b"TYPE", b"FLOAT32", b"DIM", dimensions)
        prefix = (b"ON", b"HASH", b"PREFIX", 1, _document(b"", b"", dimensions))
        return [has, (b"FT.CREATE", name, *prefix, b"SCHEMA", *fields, b"DISTANCE_METRIC", b"COSINE")]

    def takes(self, replies: Sequence[object]) -> bool:
        has, about = replies
        return not has and (not isinstance(about, list) or about[0] < MAX_MEMBERS)

    def adds(self, bucket: bytes, key: bytes, vector: Sequence[float], ttl_s: int) -> list[Command]:
        name = _document(bucket, key, len(vector))
        fields = (b"bucket", bucket.hex().encode(), b"vector", _blob(vector))
        return [(b"HSET", name, *fields), (b"EXPIRE", name, ttl_s)]


def _blob(vector: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(vector)}f", *vector)


def _set_of(bucket: bytes, number: int) -> bytes:
    return b"%s%s:%d" % (_SET, bucket, number)


def _document(bucket: bytes, key: bytes, dimensions: int) -> bytes:
    return b"%s%d:%s%s" % (_DOCUMENT, dimensions, bucket, key)
