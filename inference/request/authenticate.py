"""Finds the tenant whose API key a request carries."""

import time

from inference.contract.snapshot import key_digest
from inference.core.openai import errors
from inference.policy.serving import Caller, Serving


def authenticate(serving: Serving, headers: dict[bytes, bytes]) -> Caller:
    """The tenant behind the request's key: the bearer key where there is one, else that of `x-api-key`, as Anthropic's clients send
    it. Raises ApiError.

    Keys are compared by their digests through a hash table: its timing can only reveal a digest, which does not give
    the key.
    """
    kind, _, key = headers.get(b"authorization", b"").partition(b" ")
    if kind.lower() != b"bearer":
        key = headers.get(b"x-api-key", b"")
    if not (key := key.strip()):
        raise errors.missing_key()
    caller = serving.callers.get(key_digest(key.decode("utf-8", "replace")))
    if caller is None:
        raise errors.wrong_key()
    if caller.expires_ms and time.time_ns() // 1_000_000 >= caller.expires_ms:
        raise errors.expired_key()
    return caller
