"""Claims what is due, sends it and settles it, in a thread with an event loop of its own.

It polls every `poll_s`, which is one query of a partial index. Any number of processes may do so at once, and be killed at any point: a
claim ends with its lease, and what was claimed is sent again.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Generic, TypeVar

import structlog
from django.db import DatabaseError, close_old_connections, connections
from django.utils import timezone

from controlplane.core.periodic import PeriodicThread
from controlplane.core.seldom import Seldom
from controlplane.incidents.notify.delivery.core.outbound_address import Allowed
from controlplane.incidents.notify.delivery.core.retry import Answer, Policy
from controlplane.incidents.notify.delivery.send.http_client import Client

log = structlog.get_logger(__name__)
T = TypeVar("T")
Item = TypeVar("Item")
Whose = TypeVar("Whose", bound=Hashable)

POLL_S = 0.5
AT_ONCE = 32
"""Requests in flight."""
HOUSEKEEPING_S = 5.0


class Pump(PeriodicThread, ABC, Generic[Item, Whose]):
    """`allow` says where requests may go beside public addresses. `stop()` ends it once the requests in flight are answered."""

    def __init__(self, name: str, allow: Allowed, policy: Policy | None = None, poll_s: float = POLL_S) -> None:
        super().__init__(name, lambda: asyncio.run(self._serve()), poll_s)
        self._allow, self.policy = allow, policy or Policy()
        self._poll_s = poll_s
        self._claiming = Seldom()
        self._database = ThreadPoolExecutor(1, thread_name_prefix=f"{name}-database")

    @abstractmethod
    def claim(self, free: int, busy: Mapping[Whose, int]) -> list[Item]:
        """At most `free` that are due, until the lease ends. `busy` counts those in flight."""

    @abstractmethod
    def whose(self, item: Item) -> Whose:
        """Whom it must not leave without places for others."""

    @abstractmethod
    def claimed_until(self, item: Item) -> datetime | None: ...

    @abstractmethod
    async def attempt(self, client: Client, item: Item) -> Answer:
        """It never raises: what cannot be sent is refused, so that it is seen and delays no other."""

    @abstractmethod
    def settle(self, item: Item, answer: Answer) -> None: ...

    def keep_house(self) -> None:
        """Every HOUSEKEEPING_S."""
        close_old_connections()

    def run(self) -> None:
        super().run()
        self._database.submit(connections.close_all)
        self._database.shutdown()

    async def _serve(self) -> None:
        flying: dict[asyncio.Task[None], Whose] = {}
        async with Client(self._allow, self.policy.timeout_s) as client:
            keeping = asyncio.create_task(self._keep_house())
            try:
                while not self._stopping.is_set():
                    for item in await self._claim(AT_ONCE - len(flying), Counter(flying.values())):
                        flying[asyncio.create_task(self._deliver(client, item))] = self.whose(item)
                    await self._until_something_ends(flying)
                if flying:
                    await asyncio.wait(flying, timeout=self.policy.timeout_s)
            finally:
                keeping.cancel()

    async def _claim(self, free: int, busy: Counter[Whose]) -> list[Item]:
        if free <= 0:
            return []
        try:
            claimed = await self._in_database(lambda: self.claim(free, busy))
        except DatabaseError as error:
            if self._claiming.fails(error):
                log.warning("deliveries.claim_failed", error=str(error))
            return []
        if self._claiming.works():
            log.info("deliveries.claimed_again")
        return claimed

    async def _until_something_ends(self, flying: dict[asyncio.Task[None], Whose]) -> None:
        """Wait until a request ends, since what follows it may leave at once, or for POLL_S."""
        if not flying:
            await asyncio.sleep(self._poll_s)
            return
        done, _ = await asyncio.wait(flying, timeout=self._poll_s, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            del flying[task]
            task.result()

    async def _deliver(self, client: Client, item: Item) -> None:
        if not self._in_time(item):
            return  # another sender may have claimed it by now
        answer = await self.attempt(client, item)
        try:
            await self._in_database(lambda: self.settle(item, answer))
        except DatabaseError as error:
            # The lease ends, and it is sent again: the receiver knows its id.
            log.warning("delivery.settle_failed", delivery=str(item), error=str(error))

    def _in_time(self, item: Item) -> bool:
        """Whether the claim outlasts an attempt that begins now, so that no other sender sends it at the same time."""
        left = (self.claimed_until(item) or timezone.now()) - timezone.now()
        return left >= timedelta(seconds=self.policy.timeout_s)

    async def _keep_house(self) -> None:
        seldom = Seldom()
        while True:
            try:
                await self._in_database(self.keep_house)
            except DatabaseError as error:
                if seldom.fails(error):
                    log.warning("sender.housekeeping_failed", error=str(error))
            except Exception as error:
                if seldom.fails(error):
                    log.exception("sender.housekeeping_failed")
            await asyncio.sleep(HOUSEKEEPING_S)

    async def _in_database(self, work: Callable[[], T]) -> T:
        """Django's connections belong to threads, so all work on the database is done by one thread."""

        def run() -> T:
            try:
                return work()
            except DatabaseError:
                connections.close_all()
                raise

        return await asyncio.get_running_loop().run_in_executor(self._database, run)
