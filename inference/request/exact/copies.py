"""Copies of answers that were just read from Redis, for requests that want the same again at once."""

from collections import deque
from time import monotonic, time

import msgspec

from inference.core.events import WholeAnswer

LIVES_S = 2.0
MAX_BYTES = 32 << 20
MAX_TENANT_BYTES = 4 << 20
"""A tenant that has as much here gets no more: it takes no other one's place."""
_ENTRY_BYTES = 1 << 10
"""Counted for each beside its length in Redis, so that there are at most 32,768, and 4,096 of a tenant."""


class _Copy(msgspec.Struct, frozen=True, gc=False):
    key: bytes
    answer: WholeAnswer
    tenant: str
    size: int
    since_s: float  # on the monotonic clock
    until_s: float


class Copies:
    """They are known by the cache's keys, of which the tenant is a part, and how often what they are of was purged: a gateway that obeys a
    purge asks for another key. Nothing is pushed out, because all is gone within seconds.
    """

    def __init__(self) -> None:
        self._copies: dict[bytes, _Copy] = {}
        self._oldest_first: deque[_Copy] = deque()
        self._bytes: dict[str, int] = {}  # by tenant
        self.size = 0  # bytes of all
        self.dropped = 0  # how often one was, or would have been

    def get(self, key: bytes) -> WholeAnswer | None:
        copy = self._copies.get(key)
        return copy.answer if copy is not None and monotonic() < copy.until_s else None

    def add(self, key: bytes, answer: WholeAnswer, tenant: str, size: int) -> None:
        """Unless there is one or no room, or it is about to end in Redis, or to become stale there."""
        now_s, clock_s = monotonic(), time()
        if self._oldest_first and now_s - self._oldest_first[0].since_s >= LIVES_S:
            self._forget(now_s)
        taken, size = self._bytes.get(tenant, 0), size + _ENTRY_BYTES
        lives_s = (answer.fresh_until_s or answer.expires_s) - clock_s
        before = self._copies.get(key)
        if lives_s <= 0 or self.size + size > MAX_BYTES or taken + size > MAX_TENANT_BYTES:
            return
        if before is not None and now_s < before.until_s:
            return
        copy = _Copy(key, answer, tenant, size, now_s, now_s + (lives_s if lives_s < LIVES_S else LIVES_S))
        self._copies[key] = copy
        self._oldest_first.append(copy)
        self._bytes[tenant] = taken + size
        self.size += size

    def drop(self, key: bytes) -> None:
        """Another answer takes its place. Its bytes count for as long as it would have lived."""
        self.dropped += 1
        self._copies.pop(key, None)

    def _forget(self, now_s: float) -> None:
        while self._oldest_first and now_s - self._oldest_first[0].since_s >= LIVES_S:
            copy = self._oldest_first.popleft()
            if self._copies.get(copy.key) is copy:
                del self._copies[copy.key]
            self.size -= copy.size
            taken = self._bytes.pop(copy.tenant) - copy.size
            if taken:
                self._bytes[copy.tenant] = taken
