"""What is kept of the prompts and answers of a tenant that asks for an audit of its texts: keyed hashes and sizes, never a text.

    tenant's key = HMAC-SHA256(WEIR_USER_HASH_KEY, "\\0audit\\0" + tenant)     and its id: the first 8 hex digits of HMAC-SHA256(it, "id")
    hash of a text = id + ":" + hex of HMAC-SHA256(tenant's key, "prompt\\0" or "answer\\0", and the bytes of the text)

Whoever has a tenant's key can look for texts among this tenant's hashes, and finds out nothing of another tenant or of users.
"""

import hmac
from typing import Literal, NamedTuple

Part = Literal["prompt", "answer"]
NO_KEY = "not known: no key"
"""In place of a hash where the gateway has no key."""


class TextKey(NamedTuple):
    """Of one tenant. `id` says in each hash which key it is of; both are empty where the gateway has none."""

    secret: bytes
    id: str


class TextHash:
    """The hash and the size of a text that comes in parts."""

    __slots__ = ("_hash", "_id", "size_bytes")

    def __init__(self, key: TextKey, part: Part) -> None:
        self._id = key.id
        self._hash = hmac.new(key.secret, f"{part}\0".encode(), "sha256") if key.secret else None
        self.size_bytes = 0

    def add(self, data: bytes) -> None:
        self.size_bytes += len(data)
        if self._hash is not None:
            self._hash.update(data)

    def __str__(self) -> str:
        return NO_KEY if self._hash is None else f"{self._id}:{self._hash.hexdigest()}"


class TextAudit:
    """Of one request: its body as it came, and the body of its answer as the client gets it."""

    __slots__ = ("_key", "answer", "prompt")

    def __init__(self, key: TextKey, prompt: bytes) -> None:
        self._key = key
        self.prompt = TextHash(key, "prompt")
        self.prompt.add(prompt)
        self.answer: TextHash | None = None  # an error in its place is none

    def answered(self, data: bytes) -> None:
        if self.answer is None:
            self.answer = TextHash(self._key, "answer")
        self.answer.add(data)


def key_of(master: str, tenant: str) -> TextKey:
    """`master` is `WEIR_USER_HASH_KEY`."""
    if not master:
        return TextKey(b"", "")
    # Hashes of users begin with the name of their issuer, and so never with a zero.
    secret = hmac.digest(master.encode(), b"\0audit\0" + tenant.encode(), "sha256")
    return TextKey(secret, hmac.digest(secret, b"id", "sha256")[:4].hex())
