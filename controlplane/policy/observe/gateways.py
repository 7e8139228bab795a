"""Reads `/signals` of every gateway each second, all at once: one that hangs delays no other."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable

import aiohttp
import msgspec
import structlog

from controlplane.policy.observe.core.traffic import NoGateway, Traffic
from inference.contract.gateway_signals import GatewaySignals

log = structlog.get_logger(__name__)

TIMEOUT_S = 0.9
MAX_BYTES = 8 << 20


class Gateways(threading.Thread):
    """Daemon thread. `traffic()` is what it knows; `stop()` ends it. `others` are gateways that are not ready."""

    def __init__(
        self,
        urls: Callable[[], Iterable[str]],
        token: str,
        every_s: float = 1.0,
        *,
        others: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        super().__init__(name="signals", daemon=True)
        self._urls, self._others, self._token, self._every_s = urls, others, token, every_s
        self._traffic = Traffic()
        self._round = threading.Event()
        self._stopping = threading.Event()

    def traffic(self) -> Traffic:
        """What all gateways that are known now have said."""
        return self._traffic

    def wait(self, timeout_s: float) -> None:
        """Until the next round has ended, at most so long."""
        self._round.wait(timeout_s)
        self._round.clear()

    def run(self) -> None:
        asyncio.run(self._read())

    def stop(self) -> None:
        self._stopping.set()

    async def _read(self) -> None:
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S), headers=headers) as session:
            while not self._stopping.is_set():
                due = time.monotonic() + self._every_s
                try:
                    await self.read_once(session)
                except Exception:
                    log.exception("signals.round_failed")
                await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def read_once(self, session: aiohttp.ClientSession) -> None:
        ready = dict.fromkeys(url.rstrip("/") for url in self._urls())
        urls = list(ready | dict.fromkeys(url.rstrip("/") for url in self._others()))
        answers = await asyncio.gather(*(self._signals(session, url) for url in urls))
        others = frozenset(urls) - ready.keys()
        self._traffic = self._traffic.next(int(time.time() * 1_000), dict(zip(urls, answers, strict=True)), others)
        self._round.set()

    async def _signals(self, session: aiohttp.ClientSession, url: str) -> GatewaySignals | str:
        """The answer, or why there is none."""
        try:
            async with session.get(f"{url}/signals", allow_redirects=False) as response:
                body = await response.content.read(MAX_BYTES)
                while not response.content.at_eof() and len(body) < MAX_BYTES:
                    body += await response.content.read(MAX_BYTES - len(body))
                if response.status == 404:  # every gateway has /signals
                    return NoGateway(f"{url} is no gateway: it has no /signals")
                if response.status != 200:
                    return f"{url}/signals answers {response.status}"
                return msgspec.json.decode(body, type=GatewaySignals)
        except TimeoutError:
            return f"{url}/signals does not answer within {TIMEOUT_S:g} s"
        except (aiohttp.ClientError, OSError) as error:
            return f"{url}/signals cannot be read: {error}"[:300]
        except msgspec.DecodeError as error:
            return f"{url}/signals is not understood: {error}"[:300]
