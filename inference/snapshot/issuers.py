"""Verifies the tokens of the issuers that the snapshot names. Their public keys are fetched beside the requests, which never wait for that,
and kept: a token that was verified once costs a look-up until it ends.
"""

import asyncio
import time
from collections.abc import Iterable
from functools import partial

import structlog

from inference.contract.address import parse_url
from inference.contract.snapshot import Issuer
from inference.core import web_tokens
from inference.core.openai import errors
from inference.core.web_tokens import BadTokenError, Keys, Verified
from inference.tasks import keep
from inference.wires.http.client import UNANSWERED, HttpClient, request_of
from inference.wires.resolver import Resolver

_log = structlog.get_logger()
REFRESH_S = 300.0
"""How often keys are fetched."""
SOONER_S = 30.0
"""A token with a key that is not known has them fetched sooner, but not before so long after the last time."""
STALE_S = 4 * 3600.0
"""For so long after they were fetched last, keys are used while the issuer is away."""
_FIRST_PAUSE_S, _MAX_PAUSE_S, _ANSWER_S, _CONNECT_S = 0.5, 30.0, 5.0, 3.0
_MAX_BYTES = 256 << 10
_MAX_TOKENS = 10_000
_RETRY_AFTER_S = 1.0


class KeySet:
    """The public keys of one issuer, kept up to date."""

    def __init__(self, issuer: Issuer) -> None:
        self.issuer = issuer
        self.keys: Keys = {}
        self.error = ""  # why they could not be fetched the last time; empty if they could
        self.known: dict[str, Verified] = {}  # tokens that were verified with these keys, by their digests
        self.task: asyncio.Task[None] | None = None
        self._document = b""
        self._fetched_s = self._tried_s = 0.0
        self._wanted = asyncio.Event()

    @property
    def age_s(self) -> float | None:
        """Since they were fetched; None before the first time."""
        return time.monotonic() - self._fetched_s if self._fetched_s else None

    @property
    def holds(self) -> bool:
        age_s = self.age_s
        return age_s is not None and age_s < STALE_S

    def want(self) -> bool:
        """Have the keys fetched, if that was not done a moment ago. Returns whether they are being fetched."""
        if time.monotonic() - self._tried_s >= SOONER_S:
            self._wanted.set()
        return self._wanted.is_set()

    async def follow(self, client: HttpClient) -> None:
        """Fetch them again and again."""
        pause_s = _FIRST_PAUSE_S
        while True:
            error = await self._fetch(client)
            self._tried_s = time.monotonic()
            self._wanted.clear()
            if error and error != self.error:
                _log.warning("issuer.keys_not_fetched", issuer=self.issuer.name, reason=error, keys=len(self.keys))
            self.error = error
            pause_s = min(_MAX_PAUSE_S, 2 * pause_s) if error else _FIRST_PAUSE_S
            try:
                async with asyncio.timeout(pause_s if error else REFRESH_S):
                    await self._wanted.wait()
            except TimeoutError:
                pass

    async def _fetch(self, client: HttpClient) -> str:
        """Fetch them once. Returns why they are not there; empty if they are."""
        try:
            async with asyncio.timeout(_ANSWER_S):
                # It was checked, and its address is.
                url = parse_url(self.issuer.jwks_url, link_local=True, with_query=True)
                request = request_of("GET", url, {"Accept": "application/json"})
                status, _, body = await client.fetch(url, request, _MAX_BYTES)
            if status != 200:
                return f"status {status}"
            self.take(body)
        except (*UNANSWERED, ValueError, RecursionError) as error:
            return str(error) or type(error).__name__
        except TimeoutError:
            return f"no answer within {_ANSWER_S:g} s"
        return ""

    def take(self, document: bytes) -> None:
        """Use the keys of a key set, and no others. Raises ValueError."""
        if document != self._document:
            self.keys, self.known = web_tokens.read_keys(document, self.issuer), {}
            self._document = document
            _log.info("issuer.keys_fetched", issuer=self.issuer.name, keys=len(self.keys))
        self._fetched_s = time.monotonic()

    def verify(self, token: str, signed: web_tokens.Signed) -> Verified:
        """Raises ApiError."""
        taken = signed.alg in self.issuer.algorithms
        key = web_tokens.key_of(signed, self.keys) if taken else None
        holds = self.holds
        if (not holds or (taken and key is None)) and (self.want() or not holds):
            # Without its key, which may be a new one, the client comes again in a moment.
            message = f"The public keys of issuer {self.issuer.name!r} are not here yet. Send it again in a moment."
            raise errors.unavailable(message, _RETRY_AFTER_S, "gateway", reason="no_issuer_keys")
        if key is None:
            raise errors.wrong_token("It is signed with no key of its issuer that is taken here")
        try:
            return web_tokens.verify(token, key, self.issuer)
        except BadTokenError as error:
            raise errors.wrong_token(str(error)) from None


class Issuers:
    """Those that the snapshot names. With `user_hash_key` users are known by a hash with it; without one they are not kept."""

    def __init__(self, user_hash_key: str = "", *, link_local: bool = False) -> None:
        self._client = HttpClient(Resolver(link_local=link_local), _CONNECT_S)
        self._user_hash_key = user_hash_key.encode()
        self.sets: dict[str, KeySet] = {}  # by what tokens call the issuer

    def swap(self, issuers: Iterable[Issuer]) -> None:
        """Know these, and no others. The keys of one that stays as it was are kept."""
        before, self.sets = self.sets, {}
        for issuer in issuers:
            if issuer.issuer in self.sets:
                continue
            known = before.get(issuer.issuer)
            if known is None or known.issuer != issuer:
                known = KeySet(issuer)
                known.task = keep(f"keys of {issuer.name}", partial(known.follow, self._client))
            else:
                del before[issuer.issuer]
            self.sets[issuer.issuer] = known
        _end(before.values())

    def verify(self, token: str, digest: str) -> tuple[Issuer, Verified]:
        """Who has issued the token, and what it claims. Raises ApiError."""
        for known in self.sets.values():
            if (verified := known.known.get(digest)) is not None and known.holds:
                break
        else:
            known, verified = self._read(token)
            if len(known.known) >= _MAX_TOKENS:
                del known.known[next(iter(known.known))]
            known.known[digest] = verified
        if verified.expires_ms <= time.time_ns() // 1_000_000:
            del known.known[digest]
            raise errors.wrong_token("It has expired")
        return known.issuer, verified

    def close(self) -> None:
        _end(self.sets.values())
        self._client.close()

    def _read(self, token: str) -> tuple[KeySet, Verified]:
        """Raises ApiError."""
        try:
            signed, name = web_tokens.read(token)
        except BadTokenError as error:
            raise errors.wrong_token(str(error)) from None
        known = self.sets.get(name)
        if known is None:
            raise errors.wrong_token("Its issuer is not known here")
        verified = known.verify(token, signed)
        hashed = ""
        if verified.user and self._user_hash_key:
            hashed = web_tokens.user_hash(self._user_hash_key, name, verified.user)
        return known, verified._replace(user=hashed)


def _end(sets: Iterable[KeySet]) -> None:
    for known in sets:
        if known.task is not None:
            known.task.cancel()
