"""A gateway as a user runs it, `python -m inference`, and a receiver for its spans."""

import http.client
import json
import os
import secrets
import signal
import sys
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from httpx2 import Request
from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Timeout
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from deploy.local.ports import LOOPBACK, free_port
from deploy.local.process import Command, Managed, http_ok
from deploy.local.triton import Triton
from inference.contract import snapshot as policy
from inference.contract import snapshot_file
from inference.contract.snapshot import Endpoint, Model, Pool, Route, Snapshot, Tenant, Tier
from inference.contract.snapshot_parts import StageTimeouts
from tests.support.gateway.trusted import TRUSTED
from tests.support.http_server import LoopServer
from tests.support.wait import WITHIN_S, eventually, eventually_async

KEY, OTHER_KEY = "weir-test-alice", "weir-test-bob"
SMALL, LARGE = "chat-small", "chat-large"
USER_HASH_KEY = "k" * 32
_PATIENT = Timeout(600, connect=WITHIN_S)
"""As the client's own, but for the 5 s within which it wants its connection: a busy machine may not have run the test by then."""


async def _wait(request: Request) -> None:
    """Wait for the answer however long it takes. A `timeout` of a client is for the gateway, which gets it as a header."""
    request.extensions["timeout"] = _PATIENT.as_dict()


def a_snapshot(*endpoints: str, **changes: Any) -> Snapshot:
    """Both local models on each of `endpoints` (host:port), and two tenants."""
    replicas = tuple(Endpoint(f"r{number}", address) for number, address in enumerate(endpoints))

    def pool(name: str) -> Pool:
        return Pool(name, name, "local", name.replace("-", "_"), "1", replicas)

    given = Snapshot(
        version=1,
        models=tuple(Model(name, (Route(name),)) for name in (SMALL, LARGE)),
        pools=(pool(SMALL), pool(LARGE)),
        tiers=(Tier("standard"), Tier("premium", priority=1)),
        tenants=(
            Tenant("alice", "standard", (policy.key_digest(KEY),)),
            Tenant("bob", "premium", (policy.key_digest(OTHER_KEY),)),
        ),
        timeouts=StageTimeouts(cache_ms=2_000),  # Redis shares its processor with tests
    )
    return msgspec.structs.replace(given, **changes)


def small_only(*tritons: Triton) -> Snapshot:
    """As `a_snapshot`, with the small model alone."""
    both = a_snapshot(*(triton.grpc for triton in tritons))
    return msgspec.structs.replace(both, models=both.models[:1], pools=both.pools[:1])


def with_model(snapshot: Snapshot, name: str, **changes: Any) -> Snapshot:
    models = (msgspec.structs.replace(m, **changes) if m.name == name else m for m in snapshot.models)
    return msgspec.structs.replace(snapshot, models=tuple(models), version=snapshot.version + 1)


def with_fresh_tenants(snapshot: Snapshot) -> Snapshot:
    """The tenants under new names, so that nothing counts against their limits yet. Their keys stay."""
    fresh = (msgspec.structs.replace(t, name=f"{t.name}-{secrets.token_hex(4)}") for t in snapshot.tenants)
    return msgspec.structs.replace(snapshot, tenants=tuple(fresh))


def with_pool(snapshot: Snapshot, name: str, **changes: Any) -> Snapshot:
    pools = (msgspec.structs.replace(p, **changes) if p.name == name else p for p in snapshot.pools)
    return msgspec.structs.replace(snapshot, pools=tuple(pools), version=snapshot.version + 1)


def with_timeouts(snapshot: Snapshot, **changes: int) -> Snapshot:
    timeouts = msgspec.structs.replace(snapshot.timeouts, **changes)
    return msgspec.structs.replace(snapshot, timeouts=timeouts, version=snapshot.version + 1)


def unique(text: str = "Tell me about rivers") -> list[Any]:
    """Messages that no test has sent before."""
    return [{"role": "user", "content": f"{text} {secrets.token_hex(8)}"}]


@dataclass(frozen=True, slots=True)
class Gateway:
    """A running gateway. Reads its own pages over plain HTTP."""

    port: int
    snapshot_path: Path
    process: Managed
    log: Path

    @property
    def base_url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/v1"

    def client(self, key: str = KEY, **options: Any) -> AsyncOpenAI:
        """A client with connections of its own. It never gives up by itself."""
        connections = DefaultAsyncHttpxClient(verify=TRUSTED, event_hooks={"request": [_wait]})
        return AsyncOpenAI(
            base_url=self.base_url,
            api_key=key,
            http_client=connections,
            **{"max_retries": 0, "timeout": _PATIENT, **options},
        )

    def get(self, path: str, key: str = KEY, headers: dict[str, str] | None = None) -> tuple[int, str]:
        status, _, body = self.ask("GET", path, None, key, headers)
        return status, body

    def ask(
        self, method: str, path: str, body: bytes | None, key: str = KEY, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], str]:
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=120)
        try:
            sent = {**({"Authorization": f"Bearer {key}"} if key else {}), **(headers or {})}
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            got = {name.lower(): value for name, value in response.getheaders()}
            return response.status, got, response.read().decode()
        finally:
            connection.close()

    def metric(self, name: str, key: str = KEY, **labels: str) -> float:
        """The sum of a series over the labels that are not given."""
        _, page = self.get("/metrics", key)
        total = 0.0
        for line in page.splitlines():
            series, _, value = line.rpartition(" ")
            family, _, rest = series.partition("{")
            if family == name and all(f'{label}="{wanted}"' in rest for label, wanted in labels.items()):
                total += float(value)
        return total

    def obey(self, snapshot: Snapshot) -> None:
        """Write a snapshot, and wait until the gateway follows it."""
        snapshot_file.write(self.snapshot_path, snapshot)
        eventually(lambda: self.ready()["policy_version"] == snapshot.version)

    def ready(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.get("/readyz", key="")[1])
        return body

    def end_at_once(self) -> None:
        """Send both signals, so that it does not drain. Two equal ones could become one."""
        for number in (signal.SIGTERM, signal.SIGINT):
            if self.process.alive:
                os.kill(self.process.pid, number)

    def idle(self) -> bool:
        """Nothing is counted as in flight anywhere."""
        names = ("requests_in_flight", "inferences_in_flight", "pool_in_flight", "pool_waiting", "replica_in_flight")
        return not any(self.metric(f"weir_gateway_{name}") for name in names)


def gateway_command(
    folder: Path, snapshot: Snapshot | None, *, redis_url: str = "", otlp: str = "", **settings: str
) -> tuple[Command, int, Path]:
    port, path = free_port(), folder / "snapshot.json"
    if snapshot is not None:
        snapshot_file.write(path, snapshot)
    env = {
        "WEIR_GATEWAY_PORT": str(port),
        "WEIR_SNAPSHOT_PATH": str(path),
        "WEIR_REDIS_URL": redis_url,
        "WEIR_OTLP_ENDPOINT": otlp,
        "WEIR_OTLP_INTERVAL_MS": "50",
        "WEIR_SNAPSHOT_POLL_MS": "50",
        "WEIR_PROBE_INTERVAL_MS": "500",
        "WEIR_LAME_DUCK_MS": "0",
        **{f"WEIR_{name.upper()}": value for name, value in settings.items()},
    }
    ready = partial(serves, port) if snapshot is not None else partial(http_ok, port, "/healthz")
    return Command("gateway", (sys.executable, "-m", "inference"), ready, env=env), port, path


def serves(port: int) -> bool:
    """Whether the gateway there is ready, and some replica of some pool is up. Raises OSError."""
    with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/readyz", timeout=1) as response:
        return any(pool["ready"] for pool in json.load(response)["pools"].values())


@dataclass(frozen=True, slots=True)
class Received:
    """A span with its attributes as plain values."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: int
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    raw: Span

    @property
    def stage(self) -> str:
        return str(self.attributes.get("weir.stage", ""))


class Receiver(LoopServer):
    """An OTLP receiver over HTTP. It answers with `statuses`, and keeps what it takes in `spans`, and as it came in `bodies`."""

    def __init__(self) -> None:
        self.spans: list[Received] = []
        self.bodies: list[bytes] = []
        self.statuses: list[int] = []  # given first, one each; then 200

    def handlers(self) -> list[web.RouteDef]:
        return [web.post("/v1/traces", self._take)]

    async def trace(self, trace_id: str, spans: int = 1, seconds: float = 5) -> list[Received]:
        """The spans of a trace, once its root and at least `spans` are here."""

        def complete() -> bool:
            here = [span for span in self.spans if span.trace_id == trace_id]
            return len(here) >= spans and any("weir.request" in span.attributes for span in here)

        await eventually_async(complete)
        return [span for span in self.spans if span.trace_id == trace_id]

    async def _take(self, request: web.Request) -> web.Response:
        status = self.statuses.pop(0) if self.statuses else 200
        body = await request.read()
        message = ExportTraceServiceRequest.FromString(body)
        if status == 200:
            self.bodies.append(body)
            for resource in message.resource_spans:
                for scope in resource.scope_spans:
                    assert scope.scope.name == "weir.gateway"
                    self.spans += map(_received, scope.spans)
        return web.Response(status=status, headers={"Retry-After": "0"} if status != 200 else {})


def _received(span: Span) -> Received:
    attributes = {item.key: _plain(item.value) for item in span.attributes}
    return Received(
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.kind,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        attributes,
        span,
    )


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return tuple(_plain(item) for item in value.array_value.values)
    return getattr(value, kind)


StartGateway = Callable[..., Gateway]
Serve = Callable[[Snapshot], Gateway]
Tune = Callable[..., Triton]
