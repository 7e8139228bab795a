"""Puts the gateway together, and answers its URLs."""

import asyncio
from collections.abc import Callable

import msgspec

from inference.backends.fleet import Fleet
from inference.config import FLUSH_CACHE_S, FLUSH_SPANS_S, Config
from inference.core.metrics_access import may_read_metrics
from inference.core.normalise import Operation
from inference.core.openai import errors, responses
from inference.core.openai.errors import ApiError
from inference.core.snapshot import Checked
from inference.observability.metrics import Metrics
from inference.observability.span_export import SpanExport
from inference.policy import serving
from inference.policy.serving import Serving
from inference.policy.snapshot_watch import SnapshotWatch
from inference.request.authenticate import authenticate
from inference.request.cache import Cache
from inference.request.completions import Completions
from inference.tasks import keep
from inference.wires.http.exchange import JSON, EdgeCounts, Exchange, Headers, Request
from inference.wires.redis import RedisConnection

_COMPLETIONS: dict[str, Operation] = {"/v1/chat/completions": "chat", "/v1/completions": "text_completion"}


class Gateway:
    """Everything but the sockets. Call `start` before the first request, and `close` after the last."""

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
        self.edge = EdgeCounts()
        self.connections: Callable[[], tuple[int, int]] = lambda: (0, 0)  # their number, and the bytes they hold
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
        poll_s = self._config.snapshot_poll_ms / 1000
        self._watching = keep("snapshot", lambda: self.watch.run(poll_s))

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        await self.completions.close(FLUSH_CACHE_S)
        self.fleet.close()
        if self.redis is not None:
            await self.redis.close()
        await self.export.close(FLUSH_SPANS_S)

    async def __call__(self, request: Request, out: Exchange) -> None:
        path = request.path
        operation = _COMPLETIONS.get(path)
        if operation is not None and request.method == "POST":
            await self.completions.serve(operation, request, out)
            return
        try:
            status, headers, body = self._answer(request, out)
        except ApiError as error:
            status, headers, body = error.status, [JSON, *error.headers()], error.body()
        out.respond(status, headers, body)

    def admit(self, headers: dict[bytes, bytes]) -> None:
        """Raises ApiError where the request carries no known key."""
        authenticate(self._current(), headers)

    def _answer(self, request: Request, out: Exchange) -> tuple[int, Headers, bytes]:
        """Answers everything but completions. Raises ApiError."""
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
            if not may_read_metrics(self._config.metrics_token, out.peer, request.headers):
                raise errors.no_metrics()
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

    def _readiness(self) -> tuple[int, Headers, bytes]:
        """Whether this process should get requests: it has a snapshot and does not drain.

        Replicas do not count: while none is up, the gateway still gives cached answers. The body and
        `weir_gateway_pool_replicas_up` show such pools.
        """
        pools = {
            name: {"ready": state.replicas_up, "replicas": len(state.replicas)}
            for name, state in self.fleet.pools.items()
        }
        reason = ""
        if self.draining:
            reason = "draining"
        elif self.serving is None:
            reason = self.watch.error or "no policy snapshot yet"
        without = sorted(name for name, pool in pools.items() if not pool["ready"])
        body = {
            "status": "unavailable" if reason else "ready",
            "reason": reason,
            "degraded": f"no replica is up in pool {', '.join(without)}" if without else "",
            "policy_version": self.watch.version,
            "policy_error": self.watch.error,
            "policy_faults": [str(fault) for fault in self.watch.faults],
            "cache": "off" if self.redis is None else "up" if self.redis.up else "down",
            "pools": pools,
        }
        return 503 if reason else 200, [JSON], msgspec.json.encode(body)

    def _swap(self, checked: Checked) -> None:
        self.serving = serving.build(checked, self.fleet, self.serving)

    def _gauges(self) -> list[tuple[str, str, tuple[str, ...], dict[tuple[str, ...], float]]]:
        pools = self.fleet.pools
        replicas = [(pool, replica) for pool, state in pools.items() for replica in state.replicas]
        by_replica = ("pool", "replica")
        connections, held_bytes = self.connections()
        return [
            ("weir_gateway_connections", "Open client connections.", (), {(): float(connections)}),
            (
                "weir_gateway_buffered_bytes",
                "Bytes kept for clients: requests being read or answered, and answers not read.",
                (),
                {(): float(held_bytes)},
            ),
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
                "weir_gateway_pool_replicas_up",
                "Replicas of the pool whose model is ready.",
                ("pool",),
                {(name,): float(state.replicas_up) for name, state in pools.items()},
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
            (
                "weir_gateway_policy_fault",
                "1 for each part of the snapshot obeyed that cannot be.",
                ("kind", "name"),
                {(fault.kind, fault.name): 1.0 for fault in self.watch.faults},
            ),
            ("weir_gateway_spans_waiting", "Traces waiting to be sent.", (), {(): float(self.export.waiting)}),
        ]

    def _counters(self) -> list[tuple[str, str, float]]:
        edge, ended = self.edge, "weir_gateway_connections"
        return [
            (f"{ended}_refused", "Connections refused because there were too many.", float(edge.refused)),
            (f"{ended}_evicted", "Waiting connections without a key, ended to make room.", float(edge.evicted)),
            (f"{ended}_timed_out", "Connections that were idle or sent too slowly.", float(edge.timed_out)),
            (f"{ended}_unread", "Connections whose client did not read its answers.", float(edge.unread)),
            (f"{ended}_shed", "Connections cut because all held too much memory.", float(edge.shed)),
            ("weir_gateway_policy_refused", "Snapshots that could not be obeyed.", float(self.watch.refused)),
            ("weir_gateway_traces_exported", "Traces taken by the receiver.", float(self.export.exported)),
            (
                "weir_gateway_traces_dropped",
                "Traces lost because the receiver did not take them.",
                float(self.export.dropped),
            ),
        ]
