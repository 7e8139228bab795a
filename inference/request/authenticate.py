"""Finds the tenant whose API key, or whose issuer's token, a request carries."""

import time

from inference.contract.lane import KEY_HEADER, OWN_TIER_HEADER, key_of_tokens
from inference.contract.snapshot import key_digest
from inference.core.openai import errors
from inference.core.web_tokens import is_token
from inference.snapshot.issuers import Issuers
from inference.snapshot.serving import Caller, Serving

_KEY_OF_BATCH, _OWN_TIER = KEY_HEADER.encode(), OWN_TIER_HEADER.encode()


def authenticate(serving: Serving, headers: dict[bytes, bytes]) -> Caller:
    """The tenant behind the request's key: the bearer key where there is one, else that of `x-api-key`, as Anthropic's clients send
    it. A worker of the lane sends the lane's secret instead, and which key, or whose tokens, made the batch. Raises ApiError.

    Keys are compared by their digests through a hash table: its timing can only reveal a digest, which does not give
    the key.
    """
    key = _key_of(headers)
    digest = key_digest(key)
    by_lane = bool(serving.lane_sha256) and digest == serving.lane_sha256
    if by_lane:
        digest = headers.get(_KEY_OF_BATCH, b"").decode("latin-1")
    caller = serving.callers.get(digest) or (serving.of_tokens.get(digest) if by_lane else None)
    if caller is None:
        if serving.issuers is not None and not by_lane and is_token(key):
            return _by_token(serving, serving.issuers, key, digest)
        raise errors.wrong_key()
    if caller.expires_ms and time.time_ns() // 1_000_000 >= caller.expires_ms:
        raise errors.expired_key()
    return serving.of_lane(caller, headers.get(_OWN_TIER, b"").decode("latin-1")) if by_lane else caller


def digest_of(headers: dict[bytes, bytes], caller: Caller) -> str:
    """Of the key that the request carries, or what stands for its token (`contract.lane.KEY_HEADER`)."""
    if caller.issuer:
        return key_of_tokens(caller.issuer, caller.tenant, caller.tier.name)
    return key_digest(_key_of(headers))


def _key_of(headers: dict[bytes, bytes]) -> str:
    kind, _, key = headers.get(b"authorization", b"").partition(b" ")
    if kind.lower() != b"bearer":
        key = headers.get(b"x-api-key", b"")
    if not (key := key.strip()):
        raise errors.missing_key()
    return key.decode("utf-8", "replace")


def _by_token(serving: Serving, issuers: Issuers, token: str, digest: str) -> Caller:
    """The tenant and the tier that the token names, as far as its issuer may speak for that tenant, and the tenant may have that tier.
    Raises ApiError.
    """
    issuer, verified = issuers.verify(token, digest)
    tiers = serving.tenants.get(verified.tenant)
    if tiers is None or not (issuer.all_tenants or verified.tenant in issuer.tenants):
        raise errors.wrong_token("Its issuer speaks for no tenant of this name here")
    caller = tiers.get(verified.tier)
    if caller is None:
        raise errors.wrong_token("Its tenant has no tier of this name here")
    return caller._replace(issuer=issuer.name, user=verified.user)
