"""Answers lists of inputs to embed out of what is kept of each input: only those of which nothing is kept go to the server.

An answer is made of parts only where every byte of it, and its count of tokens, is known to be as the server would write it. Whatever
else happens, the request goes on as it would without this.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import msgspec
import structlog

from inference.backends.port import Query
from inference.contract.snapshot import TOKENIZERS, Model, Pool
from inference.core.cache_key import cache_key
from inference.core.events import Event, Handed, WholeAnswer
from inference.core.passing.embeddings import Item, cut, joined
from inference.core.passing.request import Passed
from inference.core.question import Question
from inference.observability.span_export import SpanExport
from inference.observability.spans import Written, now_ns
from inference.request.by_input.store import InputStore, Kept, KeptFrame, KeptItem
from inference.request.coalesce import Flight
from inference.request.generate import generate
from inference.request.long_body import at_once_or_aside
from inference.request.work import Work
from inference.snapshot.serving import Caller
from inference.tokenizers.model_text import UNCOUNTED, ModelText

_log = structlog.get_logger()
MAX_LEARNING = 4
"""Answers that are taken apart and kept at the same time, each of which may have megabytes. Those beyond are not."""
_COUNT_TIMEOUT_S = 5.0  # for each input
_ALL = 2**31 - 1
_OF_ITS_POOL = 429
"""From this status on, an error is of the pool; below, of the request."""


@dataclass(slots=True, eq=False)
class Listed:
    """A list of inputs, by their digests, with what is kept of them. `sends` are the numbers of those that go to the server."""

    digests: tuple[bytes, ...]
    rest_key: bytes  # of all of the request but its inputs
    kept: Kept
    sends: list[int]
    sends_once: bool  # an input that occurs again is not sent again, so that its tokens have to be counted here

    @property
    def hits(self) -> tuple[int, int]:
        """How many inputs are not sent, and of how many."""
        return len(self.digests) - len(self.sends), len(self.digests)

    async def whole(self) -> WholeAnswer:
        """The answer, where nothing has to be sent."""
        assert self.kept.frame is not None
        parts = [self.kept.items[digest] for digest in self.digests]
        tokens = sum(part.tokens for part in parts)
        items = [Item(part.before, part.after) for part in parts]
        body = await at_once_or_aside(partial(joined, self.kept.frame.frame, items, tokens), _size(items))
        return WholeAnswer((), tokens, 0, handed=Handed(self.kept.frame.headers, body, ""))


class ByInput:
    """Of all requests of this process."""

    def __init__(self, store: InputStore, export: SpanExport) -> None:
        self._store, self._export = store, export
        self.counts: Counter[tuple[str, str]] = Counter()  # inputs of lists, by model and whether they were kept
        self.written: Counter[tuple[str, str]] = Counter()  # bytes that Redis took, by model and routing rule
        self._miscounted: set[str] = set()  # models whose server does not count as their tokenizer does
        self._learning: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        for task in self._learning:
            task.cancel()

    async def find(
        self, query: Query, model: Model, pool: Pool, caller: Caller, regions: frozenset[str] | None, timeout_s: float
    ) -> Listed | None:
        """Look the inputs up. None where the request is no list of inputs, or Redis does not say. Never raises."""
        if not isinstance(query, Passed) or not self._store.up:
            return None
        if (inputs := query.inputs) is None:
            return None
        rest = Passed(query.path, query.operation, b"", inputs.rest, query.content_type, query.changes)
        rest_key = cache_key(rest, model, pool, caller.cached_as, regions, caller.tags)
        kept = await self._store.get(rest_key, list(dict.fromkeys(inputs.digests)), timeout_s)
        if kept is None:
            return None
        missing = [number for number, digest in enumerate(inputs.digests) if digest not in kept.items]
        sends = missing
        if _has_own(model) and model.name not in self._miscounted:
            sends = sorted({inputs.digests[number]: number for number in reversed(missing)}.values())
        listed = Listed(inputs.digests, rest_key, kept, sends, len(sends) < len(missing))
        hits, of = listed.hits
        self.counts[model.name, "hit"] += hits
        self.counts[model.name, "sent"] += of - hits
        return listed

    async def generate(self, listed: Listed, work: Work, flight: Flight) -> None:
        """Fill `flight` with the answer, of which the server makes what is not kept. Cancelling this stops the model."""
        if len(listed.sends) < len(listed.digests) and await self._partly(listed, work, flight):
            return
        await generate(work, flight)
        if flight.error is None and flight.pool is not None and flight.pool.name == work.pool.pool.name:
            self._learn(listed, range(len(listed.digests)), work, flight)

    async def _partly(self, listed: Listed, work: Work, flight: Flight) -> bool:
        """Have the rest answered. False where the whole list has to be sent."""
        passed, sends = work.question, listed.sends
        assert isinstance(passed, Passed)
        rest = await at_once_or_aside(partial(passed.with_inputs, sends), len(passed.body))
        inner = Flight(None, flight.leader, flight.priority, marks=flight.marks)
        counting: asyncio.Task[list[int] | None] | None = None
        if listed.sends_once:
            counting = asyncio.get_running_loop().create_task(_count(passed, sends, work.model, work.text))
        try:
            await generate(work._replace(question=rest, fallbacks=()), inner)
            counts = await counting if counting is not None else None
        finally:
            if counting is not None:
                counting.cancel()
            flight.attempts, flight.replica, flight.cold_start = inner.attempts, inner.replica, inner.cold_start
            flight.pool, flight.lost, flight.admitted = inner.pool, inner.lost, inner.admitted
            flight.prompt_tokens, flight.tokens_source = inner.prompt_tokens, inner.tokens_source
        if inner.error is not None:
            # What the server says of the shorter list may name an input by its number there.
            if work.fallbacks or inner.error.status < _OF_ITS_POOL:
                return False
            flight.land(inner.error)
            return True
        made = await self._assembled(listed, inner, counts)
        if made is None:
            if listed.sends_once:
                self._miscounted.add(work.model.name)
            return False
        body, flight.whole_tokens = made
        flight.head, flight.usage, flight.inputs = inner.head, inner.usage, listed.hits
        flight.add([Event(raw=body, tokens=0)])
        flight.land()
        self._learn(listed, sends, work, inner, counts)
        return True

    async def _assembled(self, listed: Listed, inner: Flight, counts: list[int] | None) -> tuple[bytes, int] | None:
        """The answer with what is kept, and the tokens of all inputs; None where these are not known."""
        kept, sends, body = listed.kept, listed.sends, _body(inner)
        parts = await at_once_or_aside(partial(cut, body), len(body))
        if parts is None or len(parts.items) != len(sends):
            return None
        if listed.sends_once and (counts is None or sum(counts) != parts.tokens):
            return None
        frame = parts.frame
        if len(parts.items) == 1:  # it does not show what is between items
            if kept.frame is None:
                return None
            frame = msgspec.structs.replace(frame, comma=kept.frame.frame.comma)
        fresh = dict(zip((listed.digests[number] for number in sends), range(len(sends)), strict=True))
        sent, tokens, items = set(sends), parts.tokens, list[Item]()
        for number, digest in enumerate(listed.digests):
            at = fresh.get(digest)
            if at is None:
                own = kept.items[digest]
                tokens += own.tokens
                items.append(Item(own.before, own.after))
                continue
            items.append(parts.items[at])
            if number not in sent and counts is not None:
                tokens += counts[at]
        return await at_once_or_aside(partial(joined, frame, items, tokens), _size(items)), tokens

    def _learn(
        self, listed: Listed, numbers: Sequence[int], work: Work, answered: Flight, counts: list[int] | None = None
    ) -> None:
        """Keep what an answer has of each of these inputs. No request waits for it."""
        if answered.status != 200 or len(self._learning) >= MAX_LEARNING or not self._store.up or work.ttl_s <= 0:
            return
        task = asyncio.get_running_loop().create_task(self._keep(listed, numbers, work, answered, counts))
        self._learning.add(task)
        task.add_done_callback(self._learning.discard)

    async def _keep(
        self, listed: Listed, numbers: Sequence[int], work: Work, answered: Flight, counts: list[int] | None
    ) -> None:
        start_ns, size = now_ns(), 0
        try:
            body = _body(answered)
            parts = await at_once_or_aside(partial(cut, body), len(body))
            if parts is None or len(parts.items) != len(numbers):
                return
            if len(numbers) == 1:
                counts = [parts.tokens]
            elif counts is None and isinstance(work.question, Passed):
                counts = await _count(work.question, numbers, work.model, work.text)
            if counts is None or sum(counts) != parts.tokens:
                return
            items = {
                listed.digests[number]: KeptItem(tokens, *item)
                for number, item, tokens in zip(numbers, parts.items, counts, strict=True)
            }
            headers = answered.head.headers if answered.head is not None else ()
            frame = KeptFrame(parts.frame, headers) if len(parts.items) > 1 else None
            size = await self._store.put(listed.rest_key, frame, items, work.ttl_s)
        except Exception:  # noqa: BLE001  (the request has its answer, whatever it is: the log has the reason)
            _log.exception("cache.write_failed", request=answered.leader[0].hex())
        finally:
            if size:
                self.written[work.model.name, work.plan.rule] += size
            self._export.submit(Written(*answered.leader, start_ns, now_ns(), size > 0))


def _has_own(model: Model) -> bool:
    """Whether it has a tokenizer of its own, and not an estimate or a usual one."""
    return model.tokenizer not in TOKENIZERS


async def _count(passed: Passed, numbers: Sequence[int], model: Model, text: ModelText) -> list[int] | None:
    """The tokens of the inputs with these numbers, by the model's own tokenizer; None where it has none. One after the other, so that
    requests that wait for the tokenizer come between.
    """
    if not _has_own(model):
        return None
    values = await at_once_or_aside(partial(passed.inputs_at, numbers), len(passed.body))
    counts = list[int]()
    for value in values:
        alone = Question(operation="embeddings", input=(value if isinstance(value, str) else tuple(value),))
        try:
            prepared = await text.prepare(alone, wants_prompt=False, enough=_ALL, timeout_s=_COUNT_TIMEOUT_S)
        except UNCOUNTED:
            return None
        if prepared.source != "exact":
            return None
        counts.append(prepared.tokens)
    return counts


def _body(flight: Flight) -> bytes:
    return flight.events[0].raw if len(flight.events) == 1 else b"".join(event.raw for event in flight.events)


def _size(items: Sequence[Item]) -> int:
    return sum(len(item.before) + len(item.after) for item in items)
