"""Starts the workers, restarts those that end or hang, adds their metrics up, and ends them all on a signal."""

import asyncio
import os
import signal
import socket
import sys
import time
from contextlib import suppress

import structlog

from inference.config import Config
from inference.observability.families import Family, Sample, merge
from inference.tasks import keep
from inference.workers.channel import Channel, Order, Report, Scrape, Scraped
from inference.workers.worker import environment

_log = structlog.get_logger()
_SCRAPE_S = 1.0  # how long a scrape waits for workers' newest figures; then their last ones count
START_S = 120.0  # for so long a worker that starts may be silent: on a busy machine, to kill it makes that busier
_LOOK_S = 0.5
_BACKOFF_FIRST_S, _MAX_BACKOFF_S = 0.1, 5.0
_STEADY_S = 10.0  # a worker that lived so long is restarted at once


def is_hung(silent_s: float, hung_ms: int, *, serving: bool) -> bool:
    """Whether a worker that has said nothing for so long is to be killed."""
    return silent_s > (hung_ms / 1000 if serving else max(START_S, hung_ms / 1000))


class Child:
    """One worker's process, and what it last reported."""

    def __init__(self, number: int, process: asyncio.subprocess.Process, channel: Channel) -> None:
        self.number, self.process, self.channel = number, process, channel
        self.started_s = self.heard_s = time.monotonic()
        self.reported = asyncio.Event()  # since the last order to do so
        self.families: list[Family] = []
        self.serving = False  # it has reported once, so it listens


class Supervisor:
    """Keeps `config.gateway_workers` workers. `run` returns the exit status."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._children: dict[int, Child] = {}
        self._ended: list[Family] = []  # counters of workers that have ended
        self._restarts = 0
        self._stopping = asyncio.Event()
        self._status = 0
        self._reserved = socket.socket()

    async def run(self) -> int:
        try:
            self._reserve()
        except OSError as error:
            host, port = self._config.gateway_host, self._config.gateway_port
            _log.error("gateway.listen_failed", host=host, port=port, reason=error.strerror or str(error))
            return 1
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        looking = keep("workers", self._look)
        await asyncio.gather(*(self._keep(number) for number in range(self._config.gateway_workers)))
        looking.cancel()
        self._reserved.close()
        _log.info("gateway.stopped", workers=self._config.gateway_workers)
        return self._status

    def _reserve(self) -> None:
        """Bind the port without listening, so that it is known to the workers, and kept while they are restarted."""
        host, port = self._config.gateway_host, self._config.gateway_port
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with socket.socket(family, socket.SOCK_STREAM) as alone:  # another gateway's workers share theirs too
            alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            alone.bind(address)
        self._reserved = socket.socket(family, socket.SOCK_STREAM)
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._reserved.bind(address)

    def _stop(self) -> None:
        """Drain; a second signal ends it at once."""
        do = "hurry" if self._stopping.is_set() else "drain"
        self._stopping.set()
        for child in self._children.values():
            child.channel.send(Order(do))  # type: ignore[arg-type]

    # Workers --------------------------------------------------------------------------------------

    async def _keep(self, number: int) -> None:
        """Run a worker, and another one when it ends, until the end of all."""
        backoff_s = _BACKOFF_FIRST_S
        while not self._stopping.is_set():
            child = await self._start(number)
            if self._stopping.is_set():
                child.channel.send(Order("drain"))
            hearing = keep("worker.channel", lambda child=child: self._hear(child))  # type: ignore[misc]
            status = await child.process.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(_SCRAPE_S):
                    await hearing  # until the last report is read
            child.channel.close()
            del self._children[number]
            self._ended = merge([self._ended, [family for family in child.families if family.lasts]])
            if self._stopping.is_set():
                self._status = self._status or abs(status)
                return
            if not child.serving and not self._restarts and status in (1, 2):
                self._status = status  # it has said why, and another one would say the same
                self._stop()
                return
            self._restarts += 1
            lived_s = time.monotonic() - child.started_s
            backoff_s = _BACKOFF_FIRST_S if lived_s > _STEADY_S else min(_MAX_BACKOFF_S, backoff_s * 2)
            _log.error("worker.ended", worker=number, status=status, again_in_s=backoff_s)
            with suppress(TimeoutError):
                async with asyncio.timeout(backoff_s):
                    await self._stopping.wait()

    async def _start(self, number: int) -> Child:
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "inference",
                env={
                    **os.environ,
                    "WEIR_GATEWAY_PORT": str(self._reserved.getsockname()[1]),
                    **environment(number, self._config.gateway_workers, theirs.fileno()),
                },
                pass_fds=(theirs.fileno(),),
                stdin=asyncio.subprocess.DEVNULL,
            )
        self._children[number] = child = Child(number, process, await Channel.open(ours))
        return child

    async def _look(self) -> None:
        """End workers that hang. Those that drain end by themselves, or when the system ends all."""
        while True:
            await asyncio.sleep(_LOOK_S)
            now_s = time.monotonic()
            for child in self._children.values():
                silent_s = now_s - child.heard_s
                if is_hung(silent_s, self._config.worker_hung_ms, serving=child.serving):
                    _log.error("worker.hung", worker=child.number, silent_s=round(silent_s, 1), effect="killed")
                    child.heard_s = now_s
                    with suppress(ProcessLookupError):
                        child.process.kill()

    # Metrics --------------------------------------------------------------------------------------

    async def _hear(self, child: Child) -> None:
        scrapes: set[asyncio.Task[None]] = set()
        while (message := await child.channel.receive()) is not None:
            match message:
                case Report(families):
                    child.families, child.heard_s, child.serving = families, time.monotonic(), True
                    child.reported.set()
                case Scrape(number):
                    scrape = asyncio.get_running_loop().create_task(self._scrape(child, number))
                    scrapes.add(scrape)
                    scrape.add_done_callback(scrapes.discard)
                case _:
                    pass

    async def _scrape(self, asker: Child, number: int) -> None:
        """Answer with the metrics of all: each worker's newest, or its last if it does not answer in time."""
        children = list(self._children.values())
        for child in children:
            child.reported.clear()
            child.channel.send(Order("report"))
        with suppress(TimeoutError):
            async with asyncio.timeout(_SCRAPE_S):
                for child in children:
                    await child.reported.wait()
        families = merge([self._ended, *(child.families for child in self._children.values()), self._own(children)])
        asker.channel.send(Scraped(number, families))

    def _own(self, children: list[Child]) -> list[Family]:
        up = sum(child.reported.is_set() for child in children)
        return [
            Family(
                "weir_gateway_workers_up",
                "Workers that answer, of those that there should be.",
                "gauge",
                [Sample("weir_gateway_workers_up", {}, float(up))],
            ),
            Family(
                "weir_gateway_worker_restarts",
                "Workers that ended by themselves or hung, and were started again.",
                "counter",
                [Sample("weir_gateway_worker_restarts_total", {}, float(self._restarts))],
            ),
        ]
