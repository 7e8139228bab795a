"""Makes the key under which an answer is cached.

Everything that decides the answer is hashed, each part with its length, so that two different lists of parts never
give the same bytes. The tenant is hashed too, unless the model's rule shares answers: by the speed of a shared hit a
tenant can learn what others have sent.
"""

import struct
from hashlib import blake2b

from inference.core.normalise import Question
from inference.core.snapshot import Model, Pool

_FORMAT = b"weir-answer-1"  # bump when the meaning of a part, or the value's layout, changes
_numbers = struct.Struct(">qdq")


def cache_key(question: Question, model: Model, pool: Pool, tenant: str) -> bytes:
    """32 bytes. `pool` stands for the variant that would answer. Its region and replicas cannot change the answer and are
    not hashed.
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
    """A number in [0, 1) that is the same for equal questions, so that they take the same route and share its cached
    answers.
    """
    digest = blake2b(question.prompt.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") / (1 << 64)
