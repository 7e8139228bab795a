"""What one request takes from its tenant's limits, and what the answer's headers say of them."""

import time

from inference.core.openai import errors
from inference.core.rate_limit import Bucket, duration
from inference.policy.serving import Caller
from inference.wires.http.exchange import Headers


class Meter:
    """For a tenant with a limit; others need none."""

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
        """Take the request itself. Raises ApiError where a limit is reached."""
        now_s = time.monotonic()
        if self._tokens is not None and (wait_s := self._tokens.wait_s(now_s)) > 0:
            raise errors.rate_limited(self._tier, "tokens", self._tokens.limit, wait_s)
        if self._requests is not None:
            if (wait_s := self._requests.wait_s(now_s)) > 0:
                raise errors.rate_limited(self._tier, "requests", self._requests.limit, wait_s)
            self._requests.take(1, now_s)

    def charge(self, used: int) -> None:
        """`used` tokens in all so far: take those that are new since the last time."""
        if self._tokens is not None and used > self._charged:
            self._tokens.take(used - self._charged, time.monotonic())
            self._charged = used

    def headers(self) -> Headers:
        """As OpenAI names them."""
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
