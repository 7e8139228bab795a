"""Charges a request to its tenant's limits, and writes the answer's headers about them."""

import time

from inference.core.openai import errors
from inference.core.rate_limit import Bucket, duration
from inference.policy.serving import Caller
from inference.wires.http.exchange import Headers


def meter_of(caller: Caller) -> "Meter | None":
    """A meter for a tenant with a limit; others need none."""
    return Meter(caller) if caller.requests is not None or caller.tokens is not None else None


class Meter:
    """What one request has taken."""

    __slots__ = ("_charged", "_requests", "_tier", "_tokens")

    def __init__(self, caller: Caller) -> None:
        self._tier = caller.tier.name
        self._requests: Bucket | None = caller.requests
        self._tokens: Bucket | None = caller.tokens
        self._charged = 0

    @property
    def counts_tokens(self) -> bool:
        return self._tokens is not None

    def enter(self) -> None:
        """Take the request itself. Raises ApiError if a limit is reached."""
        now_s = time.monotonic()
        if self._tokens is not None and (wait_s := self._tokens.wait_s(now_s)) > 0:
            raise errors.rate_limited(self._tier, "tokens", self._tokens.limit, wait_s)
        if self._requests is not None:
            if (wait_s := self._requests.wait_s(now_s)) > 0:
                raise errors.rate_limited(self._tier, "requests", self._requests.limit, wait_s)
            self._requests.take(1, now_s)

    def charge(self, used: int) -> None:
        """Take what is new since the last time. `used` counts all tokens so far."""
        if self._tokens is not None and used > self._charged:
            self._tokens.take(used - self._charged, time.monotonic())
            self._charged = used

    def headers(self) -> Headers:
        """The headers that OpenAI sends."""
        out: Headers = []
        now_s = time.monotonic()
        for bucket, what in ((self._requests, b"requests"), (self._tokens, b"tokens")):
            if bucket is not None:
                out += (
                    (b"x-ratelimit-limit-" + what, b"%d" % bucket.limit),
                    (b"x-ratelimit-remaining-" + what, b"%d" % bucket.remaining(now_s)),
                    (b"x-ratelimit-reset-" + what, duration(bucket.reset_s(now_s))),
                )
        return out
