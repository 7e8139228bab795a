"""Makes the key under which an answer is cached.

Everything that decides the answer is hashed, all parts with their lengths before them, so that two different lists of parts never
give the same bytes. The tenant is hashed too, unless the model's rule shares answers: by the speed of a shared hit a
tenant can learn what others have sent.
"""

import struct
from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b

import msgspec

from inference.contract.snapshot import Model, Pool
from inference.core import question as questions
from inference.core.passing.request import Passed
from inference.core.question import Question

_FORMAT = b"weir-answer-6"  # bump when the meaning of a part, or the value's layout, changes
_encode = msgspec.msgpack.Encoder().encode
_limit, _lengths = struct.Struct(">q"), struct.Struct(">11q")


def cache_key(
    query: Question | Passed,
    model: Model,
    pool: Pool,
    cached_as: str,
    regions: frozenset[str] | None = None,
    tags: bytes = b"",
) -> bytes:
    """32 bytes. `cached_as` is the caller's: its tenant, with the number of its purges; `tags` are those of the request
    (`tagged`). `pool` stands for the variant that would answer. Its region and replicas cannot change the answer and are not
    hashed; `regions` are, the only ones where the request may be served: an answer from elsewhere is not for it. The model's
    limit on output counts where the question has none.
    """
    parts = (
        _FORMAT,
        f"={cached_as}".encode() if model.cache.scope == "tenant" else b"",
        b"" if regions is None else "\0".join(sorted(regions)).encode(),
        model.name.encode(),
        b"%d\0%d\0%s" % (model.cache.purges, model.cache.version_purges, model.prompt_version.encode()),
        pool.variant.encode(),
        pool.model_name.encode(),
        pool.model_version.encode(),
        tags,
        _limit.pack(model.max_output_tokens if query.max_tokens is None else 0),
        query.canonical if isinstance(query, Passed) else questions.encode(query),
    )
    lengths = _lengths.pack(*map(len, parts))
    return blake2b(b"".join((lengths, *parts)), digest_size=32).digest()


def tagged(tags: Collection[str], purges: Mapping[str, int], grounds: Sequence[str] = ()) -> bytes:
    """The tags of a request, with how often the answers of each were purged, and the sorted `grounds` of its answer. Without them, empty:
    what nobody tagged is purged by none.
    """
    of_tags = _encode([(tag, purges.get(tag, 0)) for tag in sorted(set(tags))]) if tags else b""
    return of_tags + _encode(grounds) if grounds else of_tags


def after_purges(key: bytes, purges: Mapping[str, int]) -> bytes:
    """The key under which an answer is kept, where `purges` has how often one was purged by its key, in hex."""
    while number := purges.get(key.hex()):
        key = blake2b(b"%d:%s" % (number, key), digest_size=32).digest()
    return key


def draw(canonical: bytes) -> float:
    """A number in [0, 1) that is the same for equal requests, so that they take the same route and share its cached
    answers.
    """
    digest = blake2b(canonical, digest_size=8).digest()
    return int.from_bytes(digest, "big") / (1 << 64)
