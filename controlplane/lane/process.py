"""The lane process: its routes, its worker, and what time does to batches."""

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from importlib import import_module
from types import ModuleType

from aiohttp import web
from django.db import DatabaseError
from prometheus_client import REGISTRY, Gauge
from prometheus_client.exposition import choose_encoder

from controlplane.core.periodic import PeriodicThread
from controlplane.incidents.notify.delivery.core.outbound_address import allowed
from controlplane.lane import report
from controlplane.lane.backlog import Estimates
from controlplane.lane.callbacks import Callbacks
from controlplane.lane.config import LaneConfig
from controlplane.lane.http.edge import edge
from controlplane.lane.http.feed import Feeds
from controlplane.lane.http.jobs import JobRoutes
from controlplane.lane.http.routes import MAX_BODY_BYTES, Routes
from controlplane.lane.objects.location import objects_at
from controlplane.lane.objects.port import Objects
from controlplane.lane.store import batches, changes, chores, claims, files, idempotency, jobs
from controlplane.lane.streams import Pulse
from controlplane.lane.threads import in_thread
from controlplane.lane.worker import GRACE_S, Worker
from inference.contract.metrics_access import may_read_metrics
from inference.contract.tls.certificate import ServerCertificate, TlsError

_CLOCK_S, _CHORES_S, _SWEEP_S = 1.0, 1.0, 600.0
_STUCK_AFTER_S = 60.0
QUEUED = Gauge("weir_lane_jobs_queued", "Jobs and background responses that have not begun, in the database.")
OLDEST_QUEUED = Gauge("weir_lane_job_oldest_queued_seconds", "For how long the oldest of them waits.")
_SHUTDOWN_S = 5.0


class StartError(Exception):
    """The process cannot start; permanent. The message has the reason and the remedy."""


@contextlib.asynccontextmanager
async def serve(config: LaneConfig) -> AsyncIterator[int]:
    """Serve until the block ends. Yields the port. Raises StartError."""
    if not config.lane_token:
        raise StartError("WEIR_LANE_TOKEN is empty: set it, to the same secret as the gateway's")
    try:
        objects = objects_at(config.objects_at)
    except OSError as error:
        raise StartError(
            f"{config.objects_at} cannot be used ({error}): set WEIR_LANE_OBJECTS to a folder, or to s3://BUCKET/PREFIX with the "
            "address and the credentials of the bucket in AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        ) from error
    try:
        certificate = ServerCertificate.named(config.lane_certificate, config.lane_key, None, "WEIR_LANE")
    except TlsError as error:
        raise StartError(str(error)) from error
    kafka = _kafka(config)
    lane = _Lane(config, objects, certificate, kafka)
    try:
        yield await lane.start()
    finally:
        await lane.stop()


def _kafka(config: LaneConfig) -> ModuleType | None:
    """What speaks to brokers, if there are some. Raises StartError."""
    if not config.lane_kafka:
        return None
    if not config.lane_kafka_key:
        raise StartError(
            "WEIR_LANE_KAFKA_KEY is empty: set it to an API key of the gateway, which jobs of the topic run with"
        )
    try:
        return import_module("controlplane.lane.kafka")
    except ModuleNotFoundError as error:
        if error.name != "aiokafka":
            raise
        raise StartError(
            "WEIR_LANE_KAFKA needs aiokafka: install the extra `kafka`, such as pip install 'weir[kafka]'"
        ) from None


class _Lane:
    def __init__(
        self, config: LaneConfig, objects: Objects, certificate: ServerCertificate | None, kafka: ModuleType | None
    ) -> None:
        self._config, self._objects, self._certificate = config, objects, certificate
        self._stopping = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._chores = PeriodicThread("lane-chores", self._do_chores, _CHORES_S)
        self._pulse, self._feeds = Pulse(), Feeds()
        self._lease = timedelta(seconds=config.lane_lease_s)
        self._worker = Worker(
            objects,
            config.gateway_url,
            config.lane_token,
            config.lane_concurrency,
            self._lease,
            self._chores.wake,
            self._pulse,
        )
        self._clock = PeriodicThread("lane-clock", self._look_at_the_clock, _CLOCK_S)
        self._sweeper = PeriodicThread("lane-sweep", self._sweep, _SWEEP_S)
        self._allow = allowed(config.lane_callback_allow)
        results = partial(kafka.Results, config, objects) if kafka else None
        self._threads = (self._chores, self._clock, self._sweeper, Callbacks(self._allow, results=results))
        self._estimates = Estimates()
        self._ingress = kafka.Ingress(config, objects, self._worker.wake, self._estimates) if kafka else None
        self._tasks: list[asyncio.Task[None]] = []
        self._runner: web.AppRunner | None = None

    async def start(self) -> int:
        config = self._config
        routes = Routes(self._objects, self._chores.wake, self._estimates)
        job_routes = JobRoutes(self._objects, self._worker.wake, self._allow, self._pulse, self._estimates)
        application = web.Application(middlewares=[edge(config.lane_token)], client_max_size=MAX_BODY_BYTES)
        application.add_routes(self._feeds.all())
        application.add_routes([*routes.all(), *job_routes.all()])
        application.add_routes(
            [web.get("/healthz", _healthz), web.get("/readyz", self._readyz), web.get("/metrics", self._metrics)]
        )
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=_SHUTDOWN_S)
        await self._runner.setup()
        try:
            context = self._certificate.following() if self._certificate else None
            await web.TCPSite(self._runner, config.lane_host, config.lane_port, ssl_context=context).start()
        except OSError as error:
            raise StartError(
                f"{config.lane_host}:{config.lane_port} cannot be bound ({error.strerror or error}): set WEIR_LANE_PORT"
            ) from error
        for thread in self._threads:
            thread.start()
        if config.lane_concurrency:
            self._tasks.append(asyncio.create_task(self._worker.run(self._stopping)))
        if self._ingress is not None:
            self._tasks.append(asyncio.create_task(self._ingress.run(self._stopping)))
        port: int = self._runner.addresses[0][1]
        return port

    async def stop(self) -> None:
        """Answer what is under way, let lines end for a while, and give back the rest."""
        self._stopping.set()
        self._feeds.stop()
        for thread in self._threads:
            thread.stop()
        if self._runner is not None:
            await self._runner.cleanup()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S + _SHUTDOWN_S):
                await asyncio.gather(*self._tasks)

    def _do_chores(self) -> None:
        while not self._stopping.is_set() and (chore := chores.next_chore()) is not None:
            with contextlib.suppress(chores.SupersededError):
                chores.do(chore, self._objects)
            self._loop.call_soon_threadsafe(self._worker.wake)

    def _sweep(self) -> None:
        jobs.sweep(self._objects)
        files.sweep(self._objects)
        idempotency.forget()
        changes.sweep(claims.now())

    def _look_at_the_clock(self) -> None:
        if self._certificate is not None:
            self._certificate.reload()
        if claims.take_over(self._lease):
            self._loop.call_soon_threadsafe(self._worker.wake)
        if batches.expire():
            self._chores.wake()

    async def _readyz(self, _: web.Request) -> web.Response:
        age_s = time.monotonic() - self._worker.last_exchange_s
        if self._config.lane_concurrency and age_s > _STUCK_AFTER_S:
            return web.Response(status=503, text=f"the worker has not reached the database for {age_s:.0f} s\n")
        return web.Response(text="ready\n")

    async def _metrics(self, request: web.Request) -> web.Response:
        headers = {name.lower().encode("latin-1"): value.encode("latin-1") for name, value in request.headers.items()}
        if not may_read_metrics(self._config.metrics_token, request.remote or "", headers):
            return web.Response(status=401, text="send Authorization: Bearer with WEIR_METRICS_TOKEN\n")
        await self._set_gauges()
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        body = await in_thread(lambda: encode(REGISTRY))  # some figures are the database's
        return web.Response(body=body, headers={"content-type": content_type})

    async def _set_gauges(self) -> None:
        """They are of the database, and so the same for all lanes. What cannot be read is no number."""
        number, age_s = math.nan, math.nan
        with contextlib.suppress(DatabaseError):
            number, age_s = await in_thread(lambda: report.waiting(claims.now()))
        QUEUED.set(number)
        OLDEST_QUEUED.set(age_s)


async def _healthz(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")
