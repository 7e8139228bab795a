"""Puts the gateway together, and answers its URLs."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import msgspec

from inference.backends import readiness
from inference.backends.credentials import Credentials
from inference.backends.fleet import Fleet
from inference.backends.openai import OpenAIConnector
from inference.backends.port import Connector
from inference.backends.triton import TritonConnector
from inference.config import FLUSH_CACHE_S, FLUSH_SPANS_S, Config
from inference.contract.lane import MAX_FORM_BYTES, MAX_UPLOAD_BYTES, RESPONSES, is_upload
from inference.contract.lenient import UNREADABLE
from inference.contract.metrics_access import may_read_metrics
from inference.contract.snapshot import Checked, Fault
from inference.contract.tls.certificate import ServerCertificate
from inference.core.openai import errors, writers
from inference.core.openai.errors import ApiError
from inference.core.passing.writer import error_body
from inference.observability.families import render
from inference.observability.metrics import Labelled, Metrics
from inference.observability.span_export import SpanExport
from inference.request.authenticate import authenticate
from inference.request.by_input.lists import ByInput
from inference.request.by_input.store import InputStore
from inference.request.caching import Caches
from inference.request.completions import Completions
from inference.request.exact.cache import Cache
from inference.request.guard.guards import Guards
from inference.request.lane import Lane, is_for_lane, model_of, not_kept
from inference.request.limits import Limits
from inference.request.parse import ENDPOINTS
from inference.request.route import find_model, pools_of
from inference.request.semantic.lookup import Semantic
from inference.request.semantic.marks import NotSame
from inference.snapshot import serving
from inference.snapshot.issuers import Issuers
from inference.snapshot.serving import Serving
from inference.snapshot.snapshot_source import FileSource, HttpSource, Source
from inference.snapshot.snapshot_watch import SnapshotWatch, unix_ms
from inference.status import issuer_keys, metrics_page, semantic_cache, signals_page
from inference.status.labelled import alone
from inference.tasks import keep
from inference.tokenizers.library import Tokenizers
from inference.wires.http.cors import Cors
from inference.wires.http.exchange import JSON, EdgeCounts, Exchange, Headers, Request
from inference.wires.redis import open_redis
from inference.workers.worker import Worker

NOT_SAME = "/v1/cache/not-same"
_API = tuple({"/v1/", *ENDPOINTS})


class Gateway:
    """Everything but the sockets. Call `start` before the first request, and `close` after the last."""

    def __init__(self, config: Config) -> None:
        self._config = config
        credentials = Credentials(config.backend_credentials_dir)
        connectors: dict[str, Connector] = {
            "triton": TritonConnector(credentials),
            "openai": OpenAIConnector(credentials, link_local=config.backend_link_local),
        }
        self.export = SpanExport(
            config.otlp_endpoint, interval_s=config.otlp_interval_ms / 1000, token=config.otlp_token
        )
        self.fleet = Fleet(
            connectors,
            config.probe_interval_ms / 1000,
            config.probe_timeout_ms / 1000,
            config.signals_interval_ms / 1000,
            link_local=config.backend_link_local,
            record=self.export.submit,
        )
        self._cors = Cors(config.origins) if config.origins else None
        self.tokenizers = Tokenizers(config.tokenizers_folder)
        self.guards = Guards(credentials, link_local=config.backend_link_local)
        self.issuers = Issuers(config.user_hash_key, link_local=config.backend_link_local)
        self.redis = open_redis(config.redis_url) if config.redis_url else None
        self.limits = Limits(self.redis, config.lease_ms)
        self.lane = Lane(config) if config.lane_url else None
        self.edge = EdgeCounts()
        self.connections: Callable[[], tuple[int, int]] = lambda: (0, 0)  # their number, and the bytes they hold
        self.metrics = Metrics()
        self.worker: Worker | None = None  # where several processes serve the port
        self.certificate: ServerCertificate | None = None
        self.serving: Serving | None = None
        self.watch = SnapshotWatch(config.snapshot_kept, self._swap, config.backend_link_local)
        self.source: Source = (
            HttpSource(config.snapshot_url, config.snapshot_token, self.watch)
            if config.snapshot_url
            else FileSource(config.snapshot_file, self.watch, config.snapshot_poll_ms / 1000)
        )
        cache = Cache(self.redis) if self.redis else None
        self.semantic = Semantic(self.redis, cache, self.export, self.metrics) if self.redis and cache else None
        self.by_input = ByInput(InputStore(self.redis), self.export) if self.redis else None
        self.completions = Completions(
            lambda: self.serving,
            Caches(cache, self.semantic, self.by_input, self.export),
            self.limits,
            self.guards,
            self.export,
            self.metrics,
            keepalive_s=config.keepalive_ms / 1000,
            region=config.region,
        )
        self.metrics.gauges = lambda: [
            *metrics_page.gauges(self),
            *self._standing(),
            *semantic_cache.gauges(self.serving, self.semantic),
            *issuer_keys.gauges(self.issuers),
        ]
        self.metrics.counters = lambda: [
            *metrics_page.counters(self),
            *self._counted(),
            *semantic_cache.counters(self.semantic),
        ]
        self.draining = False  # `leave` was called
        self._watching: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self.export.start()
        self.metrics.lag.start()
        if self.redis is not None:
            self.redis.start()
        self.limits.start()
        if self.semantic is not None:
            self.semantic.start()
        self.source.begin()
        self.watch.restore()
        self._watching = [keep("snapshot", self.source.run), keep("overlay", self.watch.run)]

    def leave(self) -> None:
        """It is to end once the requests in flight have: those that would not end are told to come again."""
        self.draining = True
        if self.lane is not None:
            self.lane.leave()

    async def close(self) -> None:
        self.metrics.lag.close()
        for task in self._watching:
            task.cancel()
        await self.completions.close(FLUSH_CACHE_S)
        if self.semantic is not None:
            self.semantic.close()
        if self.by_input is not None:
            self.by_input.close()
        await self.fleet.close()
        self.issuers.close()
        self.guards.close()
        if self.lane is not None:
            self.lane.close()
        self.limits.close()
        await self.tokenizers.close()
        if self.redis is not None:
            await self.redis.close()
        await self.export.close(FLUSH_SPANS_S)

    async def __call__(self, request: Request, out: Exchange) -> None:
        path = request.path
        endpoint = ENDPOINTS.get(path)
        if self._cors is not None and path.startswith(_API) and (allowed := self._cors.headers(request.headers)):
            out.more = allowed
            if request.method == "OPTIONS":
                out.respond(200, self._cors.preflight(request.headers), b"")
                return
        for_lane = self.lane is not None and is_for_lane(request)
        if endpoint is not None and request.method == "POST" and not for_lane:
            await self.completions.serve(endpoint, request, out)
            return
        try:
            if path == "/metrics":
                status, headers, body = await self._page_of_metrics(request, out)
            elif path == "/signals":
                status, headers, body = await self._signals(request, out)
            elif self.lane is not None and for_lane:
                caller = authenticate(self._current(), request.headers)
                out.known = True
                await self.completions.count(caller)
                if model := model_of(request):
                    find_model(self._current(), model, caller)
                await self.lane.serve(request, out, caller)
                return
            elif path == NOT_SAME and self.semantic is not None:
                status, headers, body = await self._not_same(request, self.semantic)
            elif path == "/v1/models" or path.startswith("/v1/models/"):
                status, headers, body = await self._models(request)
            else:
                status, headers, body = self._answer(request, out)
        except ApiError as error:
            status, headers, body = error.status, [JSON, *error.headers()], error_body(path, error)
        out.respond(status, headers, body)

    def admit(self, headers: dict[bytes, bytes]) -> None:
        """Raises ApiError where the request carries no known key."""
        authenticate(self._current(), headers)

    def streams(self, method: str, path: str) -> int:
        """How many bytes of a request's body are handed on while they come."""
        return MAX_UPLOAD_BYTES + MAX_FORM_BYTES if self.lane is not None and is_upload(method, path) else 0

    def _answer(self, request: Request, out: Exchange) -> tuple[int, Headers, bytes]:
        """Answers everything but completions. Raises ApiError."""
        method, path = request.method, request.path
        if path in ENDPOINTS:
            raise errors.method_not_allowed(method, path, "POST")
        if path in ("/healthz", "/readyz") and method not in ("GET", "HEAD"):
            raise errors.method_not_allowed(method, path, "GET, HEAD")
        if path == "/healthz":
            return 200, [JSON], b'{"status":"ok"}'
        if path == "/readyz":
            return self._readiness(may_read_metrics(self._config.metrics_token, out.peer, request.headers))
        authenticate(self._current(), request.headers)
        if path.startswith(f"{RESPONSES}/"):
            raise not_kept(method, path)
        raise errors.no_such_url(method, path)

    async def _models(self, request: Request) -> tuple[int, Headers, bytes]:
        """The models that the caller's key may use, or one of them. It counts against the caller's limits. Raises ApiError."""
        method, path = request.method, request.path
        if method not in ("GET", "HEAD"):
            raise errors.method_not_allowed(method, path, "GET, HEAD")
        current = self._current()
        caller = authenticate(current, request.headers)
        await self.completions.count(caller)

        def card(name: str) -> dict[str, Any]:
            return readiness.card(pools_of(current, current.models[name].plans_for(caller)))

        if path == "/v1/models":
            return 200, [JSON], writers.models({name: card(name) for name in current.models if caller.may_use(name)})
        name = path.removeprefix("/v1/models/")
        if name not in current.models or not caller.may_use(name):
            raise errors.no_such_model(name)
        return 200, [JSON], writers.model(name, card(name))

    async def _not_same(self, request: Request, semantic: Semantic) -> tuple[int, Headers, bytes]:
        """A client says that a similar request's answer was not its own. It counts against the caller's limits. Raises ApiError."""
        if request.method != "POST":
            raise errors.method_not_allowed(request.method, request.path, "POST")
        caller = authenticate(self._current(), request.headers)
        await self.completions.count(caller)
        try:
            mark = msgspec.json.decode(request.body, type=NotSame)
        except UNREADABLE as error:
            raise errors.invalid(
                f'Send {{"request_id": "…"}}, the answer\'s x-request-id: {error}.', "request_id"
            ) from None
        taken = await semantic.marks.not_same(mark.request_id, caller.tenant)
        if taken == "unavailable":
            raise errors.unavailable("Redis does not answer: send it again.", 1.0, "cache")
        if taken == "unknown":
            raise errors.no_such_answer()
        return 200, [JSON], b'{"status":"taken"}'

    def _may_read(self, request: Request, out: Exchange) -> None:
        """Raises ApiError where the caller may not read the metrics."""
        if request.method not in ("GET", "HEAD"):
            raise errors.method_not_allowed(request.method, request.path, "GET, HEAD")
        if not may_read_metrics(self._config.metrics_token, out.peer, request.headers):
            raise errors.no_metrics()

    async def _signals(self, request: Request, out: Exchange) -> tuple[int, Headers, bytes]:
        """What the controller decides by. Of one process only what is needed is worked out: it is read once a second."""
        self._may_read(request, out)
        if self.worker is None:
            families = [*signals_page.families(self._counted(), self._standing()), *self.metrics.totals()]
        else:
            families = await self.worker.families()
        config = self._config
        name = config.gateway_name or f"{config.gateway_host}:{config.gateway_port}"
        said = signals_page.signals_of(
            families, at_ms=unix_ms(), gateway=name, region=config.region, workers=config.gateway_workers
        )
        return 200, [JSON], msgspec.json.encode(said)

    def _counted(self) -> list[Labelled]:
        return signals_page.counters(self.fleet.pools.values(), self.metrics)

    def _standing(self) -> list[Labelled]:
        watch = self.watch
        return [
            alone("policy_version", "The snapshot obeyed.", watch.version),
            alone("endpoints_version", "The endpoints obeyed.", watch.endpoints_version),
            alone("overlay_version", "The overlay obeyed; 0 is none.", watch.overlay_version),
            (
                "weir_gateway_connection_in_the_clear",
                "1 for each connection in plain text that leaves the machine.",
                ("to", "where"),
                {(each.to, each.where): 1.0 for each in self._config.connections if each.in_the_clear},
            ),
            *signals_page.gauges(self.fleet.pools.values(), time.monotonic()),
        ]

    async def _page_of_metrics(self, request: Request, out: Exchange) -> tuple[int, Headers, bytes]:
        self._may_read(request, out)
        families = self.metrics.families() if self.worker is None else await self.worker.families()
        page, content_type = render(families, request.headers.get(b"accept", b""))
        return 200, [(b"content-type", content_type)], page

    def _current(self) -> Serving:
        if self.serving is None:
            raise errors.unavailable("The gateway has no policy snapshot yet.", 1.0, "gateway", reason="no_policy")
        return self.serving

    def _readiness(self, with_servers: bool) -> tuple[int, Headers, bytes]:
        """Whether this process should get requests: it has a snapshot and does not drain.

        Replicas do not count: while none is up, the gateway still gives cached answers. The body and
        `weir_gateway_pool_replicas_up` show such pools. What servers the replicas are is for those who may read the metrics.
        """
        pools = {name: readiness.pool(state, with_servers) for name, state in self.fleet.pools.items()}
        reason = ""
        if self.draining:
            reason = "draining"
        elif self.serving is None:
            reason = self.watch.error or "no policy snapshot yet"
        elif not self.tokenizers.warm:
            reason = "tokenizers are being loaded"
        without = sorted(name for name, pool in pools.items() if not pool["ready"])
        body = {
            "status": "unavailable" if reason else "ready",
            "reason": reason,
            "degraded": f"no replica is up in pool {', '.join(without)}" if without else "",
            "policy_version": self.watch.version,
            "endpoints_version": self.watch.endpoints_version,
            "overlay_version": self.watch.overlay_version,
            "policy_error": self.watch.error,
            "policy_unknown_fields": list(self.watch.unknown),
            "policy_faults": [str(fault) for fault in self.faults()],
            "cache": "off" if self.redis is None else self.redis.standing,
            "semantic_cache": semantic_cache.standing(self.serving, self.semantic),
            "issuers": issuer_keys.standing(self.issuers),
            "pools": pools,
        }
        if self.worker is not None:
            body |= {"worker": self.worker.number, "workers": self.worker.workers}
        return 503 if reason else 200, [JSON], msgspec.json.encode(body)

    def faults(self) -> list[Fault]:
        """The parts of the snapshot that are not obeyed, at present."""
        return [*self.watch.faults, *self.tokenizers.faults()]

    def _swap(self, checked: Checked) -> tuple[Fault, ...]:
        self.serving = serving.build(
            checked,
            self.fleet,
            self.tokenizers,
            self.issuers,
            self.serving,
            self._config.lane_token,
            self._config.user_hash_key,
        )
        if self.semantic is not None:
            self.semantic.obey(it.model for it in self.serving.models.values())
        return self.serving.faults + self._unhashed(checked)

    def _unhashed(self, checked: Checked) -> tuple[Fault, ...]:
        """Tenants that ask for hashes of their texts, where this gateway has no key to make them with."""
        names = [tenant.name for tenant in checked.snapshot.tenants if tenant.audits_texts]
        why = "its texts are not hashed: set WEIR_USER_HASH_KEY, the same for all gateways"
        return () if self._config.user_hash_key else tuple(Fault("tenant", name, why) for name in names)
