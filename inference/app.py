"""The gateway's URLs, and everything behind them put together."""

import asyncio
import hmac

import msgspec

from inference import serving
from inference.cache import Cache
from inference.completions import Completions, authenticate
from inference.config import Config
from inference.fleet import Fleet
from inference.http import JSON, Exchange, Headers, Request
from inference.metrics import Metrics
from inference.normalise import Operation
from inference.openai import errors, responses
from inference.openai.errors import ApiError
from inference.redis_connection import RedisConnection
from inference.serving import Serving
from inference.snapshot import Snapshot
from inference.snapshot_watch import SnapshotWatch
from inference.span_export import SpanExport

_COMPLETIONS: dict[str, Operation] = {"/v1/chat/completions": "chat", "/v1/completions": "text_completion"}
_FLUSH_S = 5.0


class Gateway:
    """Everything but the sockets. `start` before the first request, `close` after the last."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.fleet = Fleet(config.probe_interval_ms / 1000, config.probe_timeout_ms / 1000)
        self.redis = RedisConnection(config.redis_url) if config.redis_url else None
        self.export = SpanExport(
            config.otlp_endpoint,
            interval_s=config.otlp_interval_ms / 1000,
            queue=config.otlp_queue,
            compress=config.otlp_gzip,
        )
        self.metrics = Metrics()
        self.metrics.gauges = self._gauges
        self.metrics.counters = self._counters
        self.serving: Serving | None = None
        self.watch = SnapshotWatch(config.snapshot_file, self._swap)
        self.completions = Completions(
            lambda: self.serving,
            Cache(self.redis) if self.redis else None,
            self.export,
            self.metrics,
            max_messages=config.max_messages,
            keepalive_s=config.keepalive_ms / 1000,
        )
        self.draining = False
        self._watching: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.export.start()
        if self.redis is not None:
            self.redis.start()
        self.watch.look()
        self._watching = asyncio.get_running_loop().create_task(self.watch.run(self._config.snapshot_poll_ms / 1000))

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        await self.completions.close(1.0)
        self.fleet.close()
        if self.redis is not None:
            await self.redis.close()
        await self.export.close(_FLUSH_S)

    async def __call__(self, request: Request, out: Exchange) -> None:
        path = request.path
        operation = _COMPLETIONS.get(path)
        if operation is not None and request.method == "POST":
            await self.completions.serve(operation, request, out)
            return
        try:
            status, headers, body = self._answer(request)
        except ApiError as error:
            status, headers, body = error.status, [JSON, *error.headers()], error.body()
        out.respond(status, headers, body)

    def admit(self, headers: dict[bytes, bytes]) -> None:
        """Whether somebody we know asks. Raises ApiError."""
        authenticate(self._current(), headers)

    def _answer(self, request: Request) -> tuple[int, Headers, bytes]:
        """The pages that need no waiting."""
        method, path = request.method, request.path
        if path in _COMPLETIONS:
            raise errors.method_not_allowed(method, path)
        known = path in ("/healthz", "/readyz", "/metrics", "/v1/models") or path.startswith("/v1/models/")
        if known and method not in ("GET", "HEAD"):
            raise errors.method_not_allowed(method, path)
        if path == "/healthz":
            return 200, [JSON], b'{"status":"ok"}'
        if path == "/readyz":
            return self._readiness()
        if path == "/metrics":
            self._may_read_metrics(request)
            page, content_type = self.metrics.render(request.headers.get(b"accept", b""))
            return 200, [(b"content-type", content_type)], page
        current = self._current()
        authenticate(current, request.headers)
        if path == "/v1/models":
            return 200, [JSON], responses.models(list(current.models))
        name = path.removeprefix("/v1/models/")
        if known and name in current.models:
            return 200, [JSON], responses.model(name)
        raise errors.no_such_model(name) if known else errors.no_such_url(method, path)

    def _current(self) -> Serving:
        if self.serving is None:
            raise errors.unavailable("The gateway has no policy snapshot yet.", 1.0, "gateway")
        return self.serving

    def _may_read_metrics(self, request: Request) -> None:
        token = self._config.metrics_token
        if token and hmac.compare_digest(request.headers.get(b"authorization", b""), b"Bearer " + token.encode()):
            return
        authenticate(self._current(), request.headers)

    def _readiness(self) -> tuple[int, Headers, bytes]:
        """Ready: it has a snapshot, does not drain, and some replica of some pool answers. The body says what is
        missing.
        """
        pools = {
            name: {
                "ready": sum(replica.health.state == "up" for replica in state.replicas),
                "replicas": len(state.replicas),
            }
            for name, state in self.fleet.pools.items()
        }
        reason = ""
        if self.draining:
            reason = "draining"
        elif self.serving is None:
            reason = self.watch.error or "no policy snapshot yet"
        elif not any(pool["ready"] for pool in pools.values()):
            reason = "no replica is ready"
        body = {
            "status": "unavailable" if reason else "ready",
            "reason": reason,
            "policy_version": self.watch.version,
            "policy_error": self.watch.error,
            "cache": "off" if self.redis is None else "up" if self.redis.up else "down",
            "pools": pools,
        }
        return 503 if reason else 200, [JSON], msgspec.json.encode(body)

    def _swap(self, snapshot: Snapshot) -> None:
        self.serving = serving.build(snapshot, self.fleet, self.serving)

    def _gauges(self) -> list[tuple[str, str, tuple[str, ...], dict[tuple[str, ...], float]]]:
        pools = self.fleet.pools
        replicas = [(pool, replica) for pool, state in pools.items() for replica in state.replicas]
        by_replica = ("pool", "replica")
        return [
            (
                "weir_gateway_requests_in_flight",
                "Completion requests being served.",
                (),
                {(): float(self.completions.in_flight)},
            ),
            (
                "weir_gateway_inferences_in_flight",
                "Inferences under way.",
                (),
                {(): float(self.completions.coalescer.in_flight)},
            ),
            (
                "weir_gateway_pool_in_flight",
                "Requests that hold a place in a pool.",
                ("pool",),
                {(name,): float(state.admission.in_flight) for name, state in pools.items()},
            ),
            (
                "weir_gateway_pool_waiting",
                "Requests that wait for a place in a pool.",
                ("pool",),
                {(name,): float(state.admission.waiting) for name, state in pools.items()},
            ),
            (
                "weir_gateway_replica_in_flight",
                "Requests at a replica.",
                by_replica,
                {(pool, replica.name): float(replica.in_flight) for pool, replica in replicas},
            ),
            (
                "weir_gateway_replica_up",
                "Whether the replica's model is ready.",
                by_replica,
                {(pool, replica.name): float(replica.health.state == "up") for pool, replica in replicas},
            ),
            (
                "weir_gateway_cache_up",
                "Whether Redis answers.",
                (),
                {(): float(self.redis is not None and self.redis.up)},
            ),
            ("weir_gateway_policy_version", "The snapshot obeyed.", (), {(): float(self.watch.version)}),
            (
                "weir_gateway_policy_stale",
                "Whether a newer snapshot was refused.",
                (),
                {(): float(bool(self.watch.error))},
            ),
            ("weir_gateway_spans_waiting", "Traces waiting to be sent.", (), {(): float(self.export.waiting)}),
        ]

    def _counters(self) -> list[tuple[str, str, float]]:
        return [
            ("weir_gateway_policy_refused", "Snapshots that could not be obeyed.", float(self.watch.refused)),
            ("weir_gateway_traces_exported", "Traces taken by the receiver.", float(self.export.exported)),
            (
                "weir_gateway_traces_dropped",
                "Traces lost because the receiver did not take them.",
                float(self.export.dropped),
            ),
        ]
