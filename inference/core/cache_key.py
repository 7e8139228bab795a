"""The name of an answer. Pure.

Everything that decides the answer goes in, each part with its length, so that no two different lists of parts give
one text to hash.
The tenant goes in too, unless the model's rule shares answers: a shared hit tells a tenant, by its speed, what others
have asked.
"""

import struct
from hashlib import blake2b

from inference.core.normalise import Question
from inference.core.snapshot import Model, Pool

_FORMAT = b"weir-answer-1"  # bump when the meaning of a part, or the value's layout, changes
_numbers = struct.Struct(">qdq")


def cache_key(question: Question, model: Model, pool: Pool, tenant: str) -> bytes:
    """32 bytes. `pool` stands for the variant that would answer; its region and replicas cannot change the answer and
    stay out.
    """
    parts = (
        _FORMAT,
        (tenant if model.cache.scope == "tenant" else "").encode(),
        model.name.encode(),
        model.prompt_version.encode(),
        pool.variant.encode(),
        pool.model_name.encode(),
        pool.model_version.encode(),
        question.operation.encode(),
        _numbers.pack(question.max_tokens, question.temperature, question.seed),
        question.prompt.encode("utf-8", "surrogatepass"),
    )
    digest = blake2b(digest_size=32)
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


def draw(question: Question) -> float:
    """A number in [0, 1) that is the same for the same question: equal questions take the same route and meet in its
    cache.
    """
    digest = blake2b(question.prompt.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") / (1 << 64)
