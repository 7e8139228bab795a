"""The evidence of each route, from labels that all gateways share: a stream in Redis for each route.

All gateways read the same labels in the same order, so all come to the same threshold, and a gateway that starts has what was learnt
before. A Redis that has lost its data has lost the answers too. The control plane does not keep them: nothing there decides by them, and
without them nothing is served, which is the safe side.
"""

import itertools
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Literal

import structlog

from inference.core.semantic.evidence import ALPHA, MAX_LABELS, Evidence, Label
from inference.wires.redis import RedisClient, RedisLostError

_log = structlog.get_logger()
Words = Literal["same", "other"]
_LABELS = b"weir:semantic:labels:"
_KEPT_S = 30 * 86_400  # after the last label
_IN_USE_S = 900.0
_NEWS_S = 60.0
_EXAMPLES = 5
_AT_ONCE = 100  # labels read in one turn of the event loop
MAX_ROUTES = 128


@dataclass(slots=True, eq=False)
class Route:
    """A model on a variant with an embedder, and what is known of its candidates in the `words` of their requests, or in others. `served`
    counts what this process has served since then.
    """

    model: str
    name: bytes
    words: Words
    evidence: Evidence
    judge: str = ""  # the model that has agreed to each of its candidates
    marks: int = 0  # of the wrong labels since the evidence began, those that people made
    served: int = 0
    used_s: float = 0.0  # when it was looked up for last, on the monotonic clock
    broke_ms: int = 0  # when answers were last seen to have become wrong, Unix time
    wrong: deque[str] = field(default_factory=lambda: deque(maxlen=_EXAMPLES))  # the newest requests with a wrong label
    last: bytes = b"-"  # label that was read

    def take(self, label: Label, request: str, at_ms: int, *, mark: bool = False) -> None:
        """A label of the time `at_ms`; `mark` is a person's."""
        self.marks += mark
        if label.wrong:
            self.wrong.append(request)
        if not self.evidence.add(label):
            return
        self.served, self.marks, self.broke_ms = 0, 0, at_ms
        if self.broke_lately(_NEWS_S):  # else it is known, and a gateway that starts reads it again
            effect = "nothing is served for similar requests until there is new evidence"
            _log.warning("semantic_cache.became_wrong", model=self.model, requests=list(self.wrong), effect=effect)

    def begin_again(self) -> None:
        """Redis no longer has what was read last, so it is another, or has lost its data: only what it has is evidence."""
        _log.warning("semantic_cache.evidence_lost", model=self.model, labels=self.evidence.labels)
        self.evidence = Evidence(self.evidence.delta, self.evidence.alpha)
        self.served, self.marks, self.broke_ms, self.last = 0, 0, 0, b"-"
        self.wrong.clear()

    def broke_lately(self, within_s: float) -> bool:
        return time.time() - self.broke_ms / 1000 < within_s


class Labels:
    def __init__(self, redis: RedisClient) -> None:
        self._redis = redis
        self.routes: dict[bytes, Route] = {}

    def route(
        self, name: bytes, model: str, words: Words, delta: float, alpha: float = ALPHA, judge: str = ""
    ) -> Route:
        """Where its bound is another than before, its labels are read again."""
        route = self.routes.get(name)
        if route is None or (route.evidence.delta, route.evidence.alpha) != (delta, alpha):
            while len(self.routes) >= MAX_ROUTES:
                del self.routes[next(iter(self.routes))]
            route = self.routes[name] = Route(model, name, words, Evidence(delta, alpha), judge)
        route.used_s = time.monotonic()
        return route

    def in_use(self) -> list[Route]:
        """Not those of a version, or of an embedder, that nobody asks for any more."""
        since_s = time.monotonic() - _IN_USE_S
        return [route for route in self.routes.values() if route.used_s >= since_s]

    def add(self, route: bytes, label: Label, request: str, *, mark: bool = False) -> None:
        """`request` is the id of the one whose answer was compared. It counts once it is read again. Never raises: a label that Redis
        does not take is none.
        """
        key = _LABELS + route
        said = (b"s", b"%.4f" % label.similarity, b"w", int(label.wrong), b"r", request, b"m", int(mark))
        try:
            self._redis.send(b"XADD", key, b"MAXLEN", b"~", MAX_LABELS, b"*", *said, hurry=False)
            self._redis.send(b"EXPIRE", key, _KEPT_S, hurry=False)
        except RedisLostError:
            return

    async def read(self, timeout_s: float) -> None:
        """Take the labels that are new. Never raises."""
        for route in self.in_use():
            for _ in itertools.count():
                if await self._read(route, timeout_s) < _AT_ONCE:
                    break

    async def _read(self, route: Route, timeout_s: float) -> int:
        """How many were new; as many as are read at once where it has to begin again. The one that was read last comes first."""
        last = route.last
        try:
            reply = await self._redis.send(
                b"XRANGE", _LABELS + route.name, last, b"+", b"COUNT", _AT_ONCE + 1, timeout_s=timeout_s
            )
        except (RedisLostError, TimeoutError):
            return 0
        if not isinstance(reply, list):
            return 0
        if route.last != last:
            return _AT_ONCE  # they were read meanwhile
        if last != b"-":
            if not reply or reply[0][0] != last:
                route.begin_again()
                return _AT_ONCE
            del reply[0]
        for identity, values in reply:  # of a cluster, redis-py has made a dict of the values
            route.last = identity
            try:
                said = values if isinstance(values, dict) else dict(zip(values[::2], values[1::2], strict=True))
                label = Label(float(said[b"s"]), said[b"w"] != b"0")
                at_ms, mark = int(identity.partition(b"-")[0]), said.get(b"m") == b"1"
                route.take(label, said[b"r"].decode(), at_ms, mark=mark)
            except (ValueError, KeyError, TypeError, AttributeError):
                continue  # of another version
        return len(reply)
