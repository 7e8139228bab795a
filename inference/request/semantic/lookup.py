"""The steps of the semantic cache: embed the text, search what is near, verify, choose; and after the answer, learn from it.

Whatever fails is a miss: the request goes on as it would without this. Where nothing may be served, all of it happens after the answer.
"""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import msgspec
import structlog

from inference.contract.snapshot import Model, Pool
from inference.contract.snapshot_parts import SemanticRule
from inference.core.cache_key import cache_key
from inference.core.events import WholeAnswer
from inference.core.semantic.beside import HitShare
from inference.core.semantic.bucket import Fuzzy, Query, bucket, split
from inference.core.semantic.evidence import ALPHA, THRESHOLDS, Label, choose, sample_rate
from inference.core.semantic.features import features
from inference.core.semantic.same import same
from inference.core.semantic.verify import VERSION, difference
from inference.observability.metrics import Metrics
from inference.observability.span_export import SpanExport
from inference.observability.spans import EMBED, SEARCH, VERIFY, Trace
from inference.request.exact.cache import Cache
from inference.request.own_requests import Helper, helper_of
from inference.request.semantic.embedder import PATH, Embedders, Vector
from inference.request.semantic.judge import PATH as JUDGE_PATH
from inference.request.semantic.judge import Judge
from inference.request.semantic.labels import Labels, Route, Words
from inference.request.semantic.marks import Marks, Served
from inference.request.semantic.store import NOT_KNOWN, Near, VectorStore
from inference.snapshot.serving import Caller, Serving
from inference.tasks import keep
from inference.wires.redis import RedisClient

_log = structlog.get_logger()
_EVERY_S = 1.0
_PATIENT_S = 1.0  # for what no request waits for
MAX_LEARNING = 64
"""Answers that are learnt from at the same time. Those beyond are not."""


@dataclass(slots=True, eq=False)
class Look:
    """One look-up. `near` is the candidate, once there is one, and `label` whether its answer is compared with the request's."""

    rule: SemanticRule
    serving: Serving
    caller: Caller
    model: Model
    pool: Pool
    embedder: Helper
    judge: Helper | None  # where the rule names one that can be asked
    text: str
    rest_key: bytes
    key: bytes  # of the exact cache
    trace: Trace
    timeout_s: float
    semantic: "Semantic"
    bucket: bytes = b""
    words: bytes = b""
    vector: Vector | None = None
    identity: bytes | None = None  # of its embedder
    routes: list[Route] = field(default_factory=list)
    named: bytes | None = None  # the identity that is in their names
    route: Route | None = None
    near: Near | None = None
    label: bool = False
    searched: bool = False
    failed: bool = False  # its text could not be embedded in time
    cut: bool = False  # the request did not wait for its end
    decided: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def pays_beside(self) -> bool:
        """Whether the request waits for the look-up, and it is known that most are misses."""
        return self.semantic.shares[self.model.name].pays and self.semantic.serves(self)

    async def find(self) -> WholeAnswer | None:
        """The answer that may be given; None where the request is to be generated. Never raises."""
        try:
            return await self.semantic.find(self)
        except asyncio.CancelledError:
            self.cut = True
            raise
        except Exception:  # noqa: BLE001  (the request is generated, whatever it is: the log has the reason)
            _log.exception("semantic_cache.failed", request=self.trace.context.trace_id.hex())
            return None
        finally:
            self.decided.set()

    def learn(self, answer: WholeAnswer) -> None:
        """Compare the request's own answer with the candidate's, and keep its text for others. No request waits for it."""
        self.semantic.learn(self, answer)

    @property
    def about(self) -> bytes:
        """What the client is shown of the answer that it gets."""
        near = self.near
        return b"" if near is None else b"; entry=%s; similarity=%.3f" % (near.key.hex().encode(), near.similarity)


class Semantic:
    """Of all requests of this process."""

    def __init__(self, redis: RedisClient, cache: Cache, export: SpanExport, metrics: Metrics) -> None:
        self._cache = cache
        self.store = VectorStore(redis)
        self.labels = Labels(redis)
        self.embedders = Embedders(redis, export, metrics)
        self.judge = Judge(export, metrics)
        self.marks = Marks(redis, self.store, self.labels)
        self.counts: Counter[tuple[str, str]] = Counter()  # of look-ups, by model and what came of them
        self.beside: Counter[tuple[str, str]] = Counter()  # of inferences that began beside one, likewise
        self.shares: defaultdict[str, HitShare] = defaultdict(HitShare)  # by model
        self._learning: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()

    def start(self) -> None:
        self._task = keep("semantic cache", self._follow)

    def close(self) -> None:
        for task in (self._task, *self._learning):
            if task is not None:
                task.cancel()

    def obey(self, models: Iterable[Model]) -> None:
        """Of a snapshot."""
        if any(model.cache.semantic.mode != "off" for model in models):
            self._wanted.set()

    async def _follow(self) -> None:
        """Read what other gateways have learnt. Until a model wants it there is nothing to do."""
        await self._wanted.wait()
        while True:
            await self.store.probe(_PATIENT_S)
            await self.labels.read(_PATIENT_S)
            await asyncio.sleep(_EVERY_S)

    def begin(
        self,
        serving: Serving,
        caller: Caller,
        model: Model,
        query: Query,
        pool: Pool,
        regions: frozenset[str] | None,
        key: bytes,
        trace: Trace,
    ) -> Look | None:
        """A look-up for a request that the exact cache does not have; None where it may not be answered for another."""
        rule = model.cache.semantic
        parts = split(query, rule.timely)
        if not isinstance(parts, Fuzzy):
            self.counts[model.name, f"not_eligible_{parts}"] += 1
            return None
        if self.store.reason not in ("", NOT_KNOWN) or model.cache.ttl_s <= 0:
            self.counts[model.name, "no_store"] += 1
            return None
        embedder = helper_of(serving, caller, rule.embedder, PATH)
        if embedder is None:
            self.counts[model.name, "no_embedder"] += 1
            return None
        rest_key = cache_key(parts.rest, model, pool, caller.cached_as, regions, caller.tags)
        timeout_s = serving.timeouts_for(model.name, caller.tier.name).cache_ms / 1000
        judge = helper_of(serving, caller, rule.judge, JUDGE_PATH) if rule.judge else None
        return Look(
            rule, serving, caller, model, pool, embedder, judge, parts.text, rest_key, key, trace, timeout_s, self
        )

    def serves(self, look: Look) -> bool:
        """Whether something may be served, so that the request waits for what is found."""
        if look.rule.mode != "on":
            return False
        routes = self._routes(look, self.embedders.identity(look.embedder))
        return any(route.evidence.threshold is not None for route in routes)

    async def find(self, look: Look) -> WholeAnswer | None:
        if not self.serves(look):
            return None
        stored = await self._find(look)
        self.shares[look.model.name].add(stored is not None)
        return stored

    async def _find(self, look: Look) -> WholeAnswer | None:
        look.trace.enter(EMBED)
        await self._embed(look, look.rule.embed_ms / 1000)
        if look.vector is None:
            return None
        look.trace.enter(SEARCH)
        nearest = await self._nearest(look, look.timeout_s)
        look.trace.enter(VERIFY)
        self._verify(look, nearest)
        near, route = look.near, look.route
        if near is None or route is None:
            return None
        rate = sample_rate(route.served, route.evidence.delta)
        chosen = choose(near.similarity, route.evidence.threshold, rate, random.random())  # noqa: S311  (no secret)
        look.label = chosen == "label"
        if chosen != "serve":
            self.counts[look.model.name, chosen] += 1
            return None
        if not await self._agrees(look, near, route, look.rule.judge_ms / 1000):
            return None
        stored = await self._cache.get(near.key, look.timeout_s)
        if stored.answer is None:
            look.near = None
            self.counts[look.model.name, "expired"] += 1
            return None
        route.served += 1
        self.counts[look.model.name, "served"] += 1
        served = Served(look.caller.tenant, route.name, look.key, near.key, near.similarity)
        self.marks.remember(look.trace.context.trace_id.hex(), served)
        return stored.answer

    def learn(self, look: Look, answer: WholeAnswer) -> None:
        if len(self._learning) >= MAX_LEARNING:
            self.counts[look.model.name, "not_learnt"] += 1
            return
        task = asyncio.get_running_loop().create_task(self._learn(look, answer))
        self._learning.add(task)
        task.add_done_callback(self._learning.discard)

    async def _learn(self, look: Look, answer: WholeAnswer) -> None:
        try:
            await look.decided.wait()
            if look.failed:
                return
            if not look.searched:
                # While nothing is served, each candidate is labelled. Answers that came before their look-up's end are no fair sample.
                look.label = not look.cut
                await self._embed(look, _PATIENT_S)
                self._verify(look, await self._nearest(look, _PATIENT_S))
            if look.vector is None or not look.searched:
                return
            near, route = look.near, look.route
            if near is not None and route is not None and look.label:
                stored = await self._cache.get(near.key, _PATIENT_S)
                if stored.answer is not None and await self._agrees(look, near, route, _PATIENT_S):
                    wrong = not same(answer, stored.answer)
                    self.labels.add(route.name, Label(near.similarity, wrong), look.trace.context.trace_id.hex())
                    self.counts[look.model.name, "label_wrong" if wrong else "label_right"] += 1
            if look.rule.judge:
                self.judge.remember(look.bucket, look.key, look.text)
            ttl_s = look.model.cache.ttl_s
            await self.store.add(look.bucket, look.key, look.vector, look.words, ttl_s, _PATIENT_S)
        except Exception:  # noqa: BLE001  (the request has its answer, whatever it is: the log has the reason)
            _log.exception("semantic_cache.failed", request=look.trace.context.trace_id.hex())

    async def _agrees(self, look: Look, near: Near, route: Route, timeout_s: float) -> bool:
        """Whether the judge does, where the route has one."""
        if not route.judge or look.judge is None:
            return not route.judge
        said = await self.judge.verdict(
            look.serving, look.caller, look.judge, look.text, look.bucket + near.key, look.trace, timeout_s
        )
        if said != "same":
            look.near = None
            self.counts[look.model.name, f"refused_{said}"] += 1
        return said == "same"

    async def _embed(self, look: Look, timeout_s: float) -> None:
        made = await self.embedders.embed(look.serving, look.embedder, look.caller, look.text, look.trace, timeout_s)
        if made is None:
            look.failed = True
            self.counts[look.model.name, "embedder_failed"] += 1
            return
        look.vector, identity = made
        shared = look.model.cache.scope == "all" and look.rule.across_tenants
        look.bucket = bucket(look.rest_key, identity, "" if shared else look.caller.tenant)
        look.words = features(look.text, look.bucket)
        look.identity = identity

    async def _nearest(self, look: Look, timeout_s: float) -> list[Near]:
        if look.vector is None:
            return []
        ttl_s = look.model.cache.ttl_s
        nearest = await self.store.nearest(look.bucket, look.key, look.vector, ttl_s, timeout_s)
        if nearest and (purged := look.serving.snapshot.tag_purges):
            nearest = [near for near in nearest if near.key.hex() not in purged]
        look.searched = nearest is not None
        if nearest is None:
            self.counts[look.model.name, "store_failed"] += 1
        return nearest or []

    def _verify(self, look: Look, nearest: Sequence[Near]) -> None:
        """Take the nearest that the verifier lets pass: in the request's own words if there is one, else in others where they are left to
        the evidence.
        """
        if not look.searched:
            return
        reasons = [(difference(look.words, near.words), near) for near in nearest if near.similarity >= THRESHOLDS[0]]
        for route in self._routes(look, look.identity):
            wanted = "" if route.words == "same" else "word"
            look.near = next((near for reason, near in reasons if reason == wanted), None)
            if look.near is not None:
                look.route = route
                return
        self.counts[look.model.name, f"refused_{reasons[0][0]}" if reasons else "none_near"] += 1

    def _routes(self, look: Look, identity: bytes | None) -> list[Route]:
        """Whatever decides which answers are right, and for which texts they are given, is in their names. Each has evidence of its own,
        so that other words, which are wrong more often, hold up no answer in the same ones; and where each keeps the bound, all do.
        """
        if identity is None or identity == look.named:
            return look.routes
        model, pool, rule = look.model, look.pool, look.rule
        judge = look.judge.name if look.judge is not None else b""
        others = rule.other_words if not rule.judge else bool(judge)  # a judge that is away agrees to nothing
        each: tuple[Words, ...] = ("same", "other") if others else ("same",)
        routes = []
        for words in each:
            parts = (
                model.name,
                model.prompt_version,
                pool.variant,
                pool.model_name,
                pool.model_version,
                words,
                VERSION,
            )
            judged = words == "other" and rule.judge
            known = msgspec.msgpack.encode((*parts, "timely") if rule.timely else parts)
            name = known + identity + (judge if judged else b"")
            name = blake2b(name, digest_size=16).digest()
            delta, alpha = rule.wrong_percent / 100, ALPHA / (2 if rule.other_words or rule.judge else 1)
            routes.append(self.labels.route(name, model.name, words, delta, alpha, judged or ""))
        look.routes, look.named = routes, identity
        return routes
