"""Assembles the telemetry process: receivers and spool in this process, pipelines and the embedded store in children."""

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from pathlib import Path

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder

from inference.contract import snapshot_file
from inference.contract.tls.certificate import ServerCertificate, TlsError

from ..config import IngestConfig
from ..ingest.otlp import grpc as otlp_grpc
from ..ingest.otlp.bearer_token import problem
from ..ingest.otlp.http import HttpReceiver
from ..ingest.otlp.receiver import Receiver
from ..ingest.pipeline.status import decode as decode_status
from ..ingest.remote_write.http import RemoteWrite
from ..ingest.scrape.scraper import Scraper
from ..ingest.scrape.targets import Target, TargetsError, named
from ..ingest.spool import checkpoint
from ..ingest.spool.frame import Position
from ..ingest.spool.reader import ages
from ..ingest.spool.writer import SpoolWriter
from ..store import access
from .children import Child
from .live import Live, redis_layer
from .remote import Remote
from .rollups import Rollups
from .state import Shard, State
from .watchdog import watch

log = structlog.get_logger(__name__)

_SEND_EVERY_S = 0.02  # how often commits are sent to the pipelines
_WATCH_S = 1.0  # how often the store's progress is checked
_GRACE_S = 2.0  # how long requests in flight may take when the process stops
PORT_FILE = Path("run") / "store-port"


class StartError(Exception):
    """The process cannot start; permanent. The message has the reason and the remedy."""


@contextlib.asynccontextmanager
async def serve(config: IngestConfig) -> AsyncIterator[tuple[int, int]]:
    """Receive until the block ends. Yields the HTTP and gRPC ports. Raises StartError."""
    if reason := problem(config.otlp_host, config.otlp_token, checks_clients=config.otlp_client_ca is not None):
        raise StartError(reason)
    try:
        certificate = ServerCertificate.named(
            config.otlp_certificate, config.otlp_key, config.otlp_client_ca, "WEIR_OTLP"
        )
    except TlsError as error:
        raise StartError(str(error)) from error
    folder = config.home / "spool"
    with _alone(folder):
        checkpoint.settle(folder, config.pipelines)
        service = _Service(config, folder, certificate)
        try:
            yield await service.start()
        finally:
            await service.stop()


class _Service:
    def __init__(self, config: IngestConfig, folder: Path, certificate: ServerCertificate | None) -> None:
        self._config, self._certificate = config, certificate
        self._loop = asyncio.get_running_loop()
        self._spool = SpoolWriter(
            folder,
            max_bytes=config.spool_max_bytes,
            reserve_bytes=config.spool_reserve_bytes,
            segment_bytes=config.spool_segment_bytes,
            on_commit=self._committed_in_thread,
        )
        self._receiver = Receiver(
            self._spool,
            max_body_bytes=config.otlp_max_body_bytes,
            inflight_bytes=config.otlp_inflight_bytes,
            max_series=config.metrics_max_series,
            retention_days=config.retention_days,
        )
        self._http = HttpReceiver(self._receiver, config.otlp_token)
        self._grpc = otlp_grpc.server(self._receiver, config.otlp_token)
        self._state = State(
            self._receiver,
            self._spool,
            [Shard(checkpoint.load(folder, number, config.pipelines)) for number in range(config.pipelines)],
            stalled_s=config.stalled_s,
        )
        self._registry = CollectorRegistry()
        self._registry.register(self._state)
        ProcessCollector(registry=self._registry)
        self._live = Live(redis_layer(config.redis_url))
        self._children: list[Child] = []
        self._pipelines: list[Child] = []
        self._rollups: Rollups | None = None
        self._state.children, self._state.pipelines = lambda: self._children, self._pipelines
        self._own: list[Target] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._send_pending = False
        self._runner: web.AppRunner | None = None

    async def start(self) -> tuple[int, int]:
        host, config = self._config.otlp_host, self._config
        try:
            named(config.scrape_targets)
        except TargetsError as error:
            raise StartError(str(error)) from error
        self._task(self._live.run())
        if config.snapshot_url:
            self._task(Remote(config.snapshot_url, config.snapshot_token, config.snapshot_file, config.home).run())
        self._spool.release(self._state.done)
        for received_ns, position in await asyncio.to_thread(self._left):
            self._state.commits.begin((time.time_ns() - received_ns) / 1e9, position, time.monotonic())
        if config.store_dsn:
            self._begin_pipelines(config.store_dsn)
        else:
            self._begin_store()
        application = web.Application(middlewares=[self._http.middleware])
        application.add_routes(self._http.routes())
        application.add_routes(RemoteWrite(self._http, self._receiver).routes())
        application.add_routes(
            [web.get("/healthz", self._healthz), web.get("/readyz", self._readyz), web.get("/metrics", self._metrics)]
        )
        self._runner = web.AppRunner(application, access_log=None, auto_decompress=False, shutdown_timeout=_GRACE_S)
        await self._runner.setup()
        try:
            context = self._certificate.following() if self._certificate else None
            await web.TCPSite(self._runner, host, config.otlp_http_port, ssl_context=context).start()
            http_port: int = self._runner.addresses[0][1]
        except OSError as error:
            raise StartError(_taken("WEIR_OTLP_HTTP_PORT", host, config.otlp_http_port, error)) from error
        try:
            address = f"[{host}]" if ":" in host else host
            grpc_port = otlp_grpc.bind(self._grpc, f"{address}:{config.otlp_grpc_port}", self._certificate)
        except RuntimeError as error:
            raise StartError(_taken("WEIR_OTLP_GRPC_PORT", host, config.otlp_grpc_port, error)) from error
        await self._grpc.start()
        self._task(Scraper(self._receiver.metrics, config.scrape_targets, config.home, own=self._own).run())
        self._task(self._watch())
        log.info("telemetry.receiving", http_port=http_port, grpc_port=grpc_port, host=host)
        return http_port, grpc_port

    async def stop(self) -> None:
        """Refuse new requests, answer those in flight, stop the children, commit the waiting records."""
        if self._rollups is not None:
            self._rollups.stop()
        await self._grpc.stop(_GRACE_S)
        if self._runner is not None:
            await self._runner.cleanup()
        for task in reversed(self._tasks):  # pipelines before the store they write to
            task.cancel()
            await asyncio.wait([task])
        self._receiver.close()
        await asyncio.to_thread(self._spool.close)

    def _begin_store(self) -> None:
        port = self._config.store_port or _free_port()
        (self._config.home / PORT_FILE).parent.mkdir(parents=True, exist_ok=True)
        snapshot_file.write_text(self._config.home / PORT_FILE, f"{port}\n".encode())
        store = Child(
            "store",
            lambda: ["controlplane.telemetry.store", "--port", str(port)],
            line=lambda _: None,
            reads_input=False,
        )
        self._start_child(store)
        self._task(watch(store, f"http://127.0.0.1:{port}/ping"))
        url, password = f"http://127.0.0.1:{port}/metrics", self._config.home / access.PASSWORD_FILE
        self._own.append(Target("store", url, bearer_token_file=str(password)))
        self._begin_pipelines(access.dsn(self._config.home, port))  # they wait until it answers

    def _begin_rollups(self, dsn: str) -> None:
        retention_days = min(self._config.retention_days, self._config.rollup_retention_days - 1)
        rollups = self._rollups = Rollups(dsn, retention_days, self._config.rollup_every_s, self._spool.refusal)
        self._state.rollups = lambda: rollups.progress
        rollups.start()

    def _begin_pipelines(self, dsn: str) -> None:
        self._begin_rollups(dsn)
        shards = len(self._state.shards)
        for number in range(shards):
            child = Child(
                f"pipeline-{number}",
                lambda number=number: [  # type: ignore[misc]
                    "controlplane.telemetry.ingest.pipeline",
                    "--shard",
                    str(number),
                    "--shards",
                    str(shards),
                ],
                line=self._reported,
                environment={"WEIR_STORE_DSN": dsn},
                started=self._send_soon,
            )
            self._pipelines.append(child)
            self._start_child(child)

    def _start_child(self, child: Child) -> None:
        self._children.append(child)
        self._task(child.run())

    def _left(self) -> list[tuple[int, Position]]:
        """The ages of records that the last run left."""
        return list(ages(self._config.home / "spool", self._state.done, self._spool.committed))

    def _task(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        task.add_done_callback(_must_not_fail)
        self._tasks.append(task)

    def _committed_in_thread(self, _: Position) -> None:
        self._loop.call_soon_threadsafe(self._commits)

    def _commits(self) -> None:
        self._state.commits.add(self._spool.committed, time.monotonic())
        self._send_soon()

    def _send_soon(self) -> None:
        """Send the pipelines the committed position, in one message for many commits."""
        if not self._send_pending:
            self._send_pending = True
            self._loop.call_later(_SEND_EVERY_S, self._send)

    def _send(self) -> None:
        self._send_pending = False
        position = self._spool.committed
        sent = [child.send(f"{position.segment} {position.offset}\n".encode()) for child in self._pipelines]
        if not all(sent):
            self._send_soon()

    def _reported(self, line: bytes) -> None:
        status = decode_status(line)
        self._state.shards[status.shard].take(status)
        if status.checkpoint.segment:
            self._spool.release(self._state.done)
        if status.requests:
            self._live.changed(status.newest_ns, status.requests)

    async def _watch(self) -> None:
        """Log once that the store hangs. The pipelines log that it refuses."""
        logged = False
        while True:
            away = self._state.away
            stalled = away is not None and not any(shard.store_away for shard in self._state.shards)
            if away is not None and stalled and not logged:
                log.error("store.stalled", reason=away[0], remedy="spans wait in the spool until it answers")
            elif logged and away is None:
                log.info("store.resumed")
            logged = stalled or (logged and away is not None)
            self._spool.tidy()
            if self._certificate is not None:
                self._certificate.reload()
            for child in self._state.hung():
                log.error("child.hung", child=child.name, remedy="it is killed and started again")
                child.kill()
                child.started_s = time.monotonic()
            await asyncio.sleep(_WATCH_S)

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _readyz(self, _: web.Request) -> web.Response:
        ready, details = self._state.readiness()
        return web.json_response({"ready": ready, **details}, status=200 if ready else 503)

    async def _metrics(self, request: web.Request) -> web.Response:
        self._http.authenticate(request)
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(self._registry), headers={"Content-Type": content_type})


def _must_not_fail(task: asyncio.Task[None]) -> None:
    """End the process in order after a fault of its own, so that its supervisor starts it again."""
    if not task.cancelled() and (error := task.exception()):
        log.critical("telemetry.failed", exc_info=error)
        signal.raise_signal(signal.SIGTERM)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the spool's lock. Raises StartError where another process does."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StartError(
                f"another telemetry process uses {folder}: stop it, or give this one its own WEIR_HOME"
            ) from error
        yield
    finally:
        os.close(handle)


def _taken(name: str, host: str, port: int, error: Exception) -> str:
    return f"{name}={port} on {host} cannot be bound ({error}): stop what listens there, or choose another port"


def _free_port() -> int:
    """A port that is free now. Where another process takes it before the store, the store ends and is started again."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
