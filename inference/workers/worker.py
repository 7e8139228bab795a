"""A worker's side of the channel: it reports its metrics, gets those of all, and ends when the supervisor says so."""

import asyncio
import itertools
import os
import socket
from collections.abc import Callable
from typing import Self

import structlog

from inference.observability.families import Family
from inference.tasks import keep
from inference.workers.channel import Channel, Order, Report, Scrape, Scraped

_log = structlog.get_logger()
REPORT_S = 2.0
_SCRAPE_S = 2.0  # the supervisor answers within a second, whatever its workers do
_VARIABLE = "WEIR_WORKER"
"""Set by the supervisor alone: the worker's number from 0, how many there are, and the channel's file descriptor."""


def environment(number: int, workers: int, channel_fd: int) -> dict[str, str]:
    """What the supervisor adds to a worker's environment."""
    return {_VARIABLE: f"{number}/{workers}/{channel_fd}"}


class Worker:
    """This process as a worker of several. `report` gives its own metrics; `drain` and `hurry` end it."""

    def __init__(self, number: int, workers: int, channel: Channel) -> None:
        self.number, self.workers = number, workers
        self._channel = channel
        self._scrapes: dict[int, asyncio.Future[list[Family]]] = {}
        self._numbers = itertools.count(1)
        self._report: Callable[[], list[Family]] = list
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def joined(cls) -> Self | None:
        """This process as a worker; None where no supervisor has started it."""
        given = os.environ.pop(_VARIABLE, "")
        if not given:
            return None
        number, workers, channel_fd = map(int, given.split("/"))
        structlog.contextvars.bind_contextvars(worker=number)
        return cls(number, workers, await Channel.open(socket.socket(fileno=channel_fd)))

    def start(self, report: Callable[[], list[Family]], drain: Callable[[], None], hurry: Callable[[], None]) -> None:
        self._report = report
        self._tasks = [keep("worker.reports", self._send_reports), keep("worker", lambda: self._obey(drain, hurry))]

    async def families(self) -> list[Family]:
        """The metrics of all workers; this one's alone if the supervisor does not answer."""
        number = next(self._numbers)
        scrape: asyncio.Future[list[Family]] = asyncio.get_running_loop().create_future()
        self._scrapes[number] = scrape
        try:
            self._channel.send(Scrape(number))
            async with asyncio.timeout(_SCRAPE_S):
                return await scrape
        except TimeoutError:
            _log.warning("worker.scrape_failed", reason="the supervisor did not answer", effect="own metrics alone")
            return self._report()
        finally:
            del self._scrapes[number]

    def close(self) -> None:
        """Send the last report."""
        for task in self._tasks:
            task.cancel()
        self._channel.send(Report(self._report()))
        self._channel.close()

    async def _send_reports(self) -> None:
        while True:
            self._channel.send(Report(self._report()))
            await asyncio.sleep(REPORT_S)

    async def _obey(self, drain: Callable[[], None], hurry: Callable[[], None]) -> None:
        while (message := await self._channel.receive()) is not None:
            match message:
                case Order(do="report"):
                    self._channel.send(Report(self._report()))
                case Order(do="drain"):
                    drain()
                case Order(do="hurry"):
                    hurry()
                case Scraped(number, families) if number in self._scrapes and not self._scrapes[number].done():
                    self._scrapes[number].set_result(families)
                case _:
                    pass
        _log.error("worker.supervisor_lost", effect="draining")
        drain()
