"""A request's way through the cache: its key, the answer that is kept for it, that of a similar request, the parts of a list that are kept,
and what is kept of its own answer.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from inference.backends.port import Query
from inference.contract.snapshot import Model, Pool
from inference.core.cache_control import CacheControl
from inference.core.cache_key import after_purges, cache_key
from inference.core.events import WholeAnswer
from inference.core.passing.answers import is_answer
from inference.core.passing.request import Passed
from inference.core.question import GENERATION
from inference.observability.span_export import SpanExport
from inference.observability.spans import LOOKUP, Trace, now_ns
from inference.request.answer import Answer
from inference.request.by_input.lists import ByInput, Listed
from inference.request.coalesce import Coalescer, Flight
from inference.request.degrade import Degraded
from inference.request.exact.cache import SKIPPED, Cache
from inference.request.exact.refresh import Refreshes
from inference.request.exact.write_back import WriteBack
from inference.request.generate import generate
from inference.request.semantic.lookup import Look, Semantic
from inference.request.work import Work
from inference.snapshot.serving import Caller, Serving


class Caches:
    """Of all requests of this process. Without Redis requests share what is in flight alone."""

    def __init__(
        self, exact: Cache | None, semantic: Semantic | None, by_input: ByInput | None, export: SpanExport
    ) -> None:
        self.exact, self.semantic, self.by_input = exact, semantic, by_input
        self.write_back = WriteBack(exact, export)
        self.coalescer = Coalescer()
        self.refreshes = Refreshes(self.coalescer, export)


@dataclass(slots=True, eq=False)
class Caching:
    """One request's. `query` is what `pool` would be sent; without `cacheable` nothing is kept. `is_usual`: it is met, and may be met, by
    any request that is the same: neither itself nor a policy wants anything else of it.
    """

    caches: Caches
    serving: Serving
    caller: Caller
    model: Model
    pool: Pool  # whose answer it is, once there is one
    query: Query
    regions: frozenset[str] | None
    control: CacheControl
    timeout_s: float
    trace: Trace
    cacheable: bool
    is_usual: bool
    key: bytes | None = None
    entry: bytes = b""  # the key of the answer that it is given
    is_stale: bool = False  # what was looked up: it is to be made anew
    is_better: bool = False  # what was looked up is the answer without the step that changes the request
    look: Look | None = None
    beside: Flight | None = None  # which began beside the look-up
    listed: Listed | None = None

    def __post_init__(self) -> None:
        if self.cacheable:
            self.key = self._key(self.query, self.pool)

    @property
    def looks(self) -> bool:
        """Whether an answer that is kept will do."""
        return self.key is not None and self.control.max_age_s != 0

    @property
    def refreshes(self) -> bool:
        """Whether the answer that it was given is to be made anew, and nobody does."""
        return self.is_stale and not self.control.only_if_cached and not self.caches.refreshes.under_way(self.entry)

    async def look_up(self, better: Degraded | None) -> WholeAnswer | None:
        """The answer that is kept. `better` is the request without the step that changes it: where its answer is kept, that is given
        (`is_better`).
        """
        key, trace, exact = self.key, self.trace, self.caches.exact
        if key is None or self.control.max_age_s == 0:
            return None
        trace.enter(LOOKUP)
        if exact is None:
            stored, trace.outcome, _ = SKIPPED
        elif better is None:
            # A refresh is the tenant's to pay for, and a budget counts what requests cost.
            stale = bool(self.model.cache.stales_s) and self.is_usual and not self.caller.has_budget
            stored, trace.outcome, self.is_stale = await exact.get(
                key, self.timeout_s, self.control.max_age_s, stale=stale, tenant=self.caller.tenant
            )
        else:
            keys = (self._key(better.question, better.state.pool), key)
            (stored, trace.outcome, _), number = await exact.first(
                keys, self.timeout_s, self.control.max_age_s, tenant=self.caller.tenant
            )
            if number == 0:
                self.is_better, self.pool = True, better.state.pool
                trace.show(self.pool)
            key = keys[number]
        if stored is not None:
            self.entry = key
        return stored

    async def look_further(self, answer: Answer, begin: Callable[[], Flight | None]) -> WholeAnswer | None:
        """Without an answer that is kept: that of a similar request, or one that is made of parts which are all kept. `begin` has the
        inference begin beside the former, if it may.
        """
        key, caches, rule = self.key, self.caches, self.model.cache
        if key is None or not self.is_usual:
            return None
        under_way = caches.coalescer.has(key)
        if rule.semantic.mode != "off" and caches.semantic is not None and not (rule.coalesce and under_way):
            self.look = caches.semantic.begin(
                self.serving, self.caller, self.model, self.query, self.pool, self.regions, key, self.trace
            )
            if self.look is not None and self.look.pays_beside:
                self.beside = begin()
            if self.look is not None and (stored := await self._similar(self.look, answer)) is not None:
                self.trace.outcome, answer.about_cache = "semantic", self.look.about
                return stored
        if caches.by_input is None or self.query.operation != "embeddings" or self.trace.outcome != "miss" or under_way:
            return None
        self.listed = await caches.by_input.find(
            self.query, self.model, self.pool, self.caller, self.regions, self.timeout_s
        )
        if self.listed is None or self.listed.sends:
            return None
        self.trace.outcome = "hit"
        answer.of_inputs(self.listed.hits)
        return await self.listed.whole()

    async def _similar(self, look: Look, answer: Answer) -> WholeAnswer | None:
        """What the look-up finds. With a hit an inference that began beside it is cancelled, unless another request has joined it; else
        it is the request's, and where it brings the whole answer first, nothing is waited for.
        """
        flight = self.beside
        if flight is None:
            return await look.find()
        finding, landed = asyncio.ensure_future(look.find()), asyncio.ensure_future(flight.landed())
        result, stored = "left", None
        try:
            await asyncio.wait((finding, landed), return_when=asyncio.FIRST_COMPLETED)
            if flight.error is not None:
                await asyncio.wait((finding,))
            stored = finding.result() if finding.done() else None
            result = "overtaken" if stored is not None else "kept" if finding.done() else "first"
        finally:
            finding.cancel()
            landed.cancel()
            look.semantic.beside[self.model.name, result] += 1
            if flight.done or result in ("kept", "first"):
                flight.want()
            if result in ("left", "overtaken"):
                self.beside = None
                self.trace.overtake(flight.marks, "overtaken" if stored is not None else "cancelled")
                self.caches.coalescer.leave(flight)
            if result == "left":
                answer.close(flight, 0)
        return stored

    def begin_beside(self, priority: int, work: Callable[[Flight], Awaitable[None]]) -> Flight:
        """A flight that a hit cancels. What its pools are asked for counts once it is known to be wanted."""
        flight, _ = self.join(priority, work)
        flight.undecided, self.trace.begun_ns = [], now_ns()
        return flight

    def join(self, priority: int, work: Callable[[Flight], Awaitable[None]]) -> tuple[Flight, bool]:
        """The flight that answers the request, and whether it is another request's. Else `work` fills it."""
        shared = self.key if self.model.cache.coalesce and self.control.is_usual else None
        return self.caches.coalescer.join(shared, (self.trace.context.trace_id, self.trace.id), priority, work)

    async def generate(self, work: Work, flight: Flight) -> None:
        """Fill `flight` with an answer that is made now, and keep it; no request waits for that. Cancelling this stops the model."""
        if self.listed is not None and self.caches.by_input is not None:
            await self.caches.by_input.generate(self.listed, work, flight)
        else:
            await generate(work, flight)
        # The key names its variant. While it waited, the pool's endpoints may have changed.
        ours = flight.error is None and flight.pool is not None and flight.pool.name == work.pool.pool.name
        head = flight.head
        ours = ours and (head is None or (head.status == 200 and not head.cut))  # it is given with that
        if self.key is not None and self.control.stores and ours and self._is_whole(flight):
            self.caches.write_back.start(self.key, flight, work)
            if self.look is not None:
                self.look.learn(flight.answer())

    def _is_whole(self, flight: Flight) -> bool:
        """Whether what came is an answer, all of it: anything else is handed on, and not kept."""
        if self.query.operation in GENERATION:
            return bool(flight.finish_reason)
        handed = flight.answer().handed
        return handed is None or not isinstance(self.query, Passed) or is_answer(self.query.path, handed.body)

    def _key(self, query: Query, pool: Pool) -> bytes:
        key = cache_key(query, self.model, pool, self.caller.cached_as, self.regions, self.caller.tags)
        purges = self.serving.snapshot.tag_purges
        return after_purges(key, purges) if purges else key
