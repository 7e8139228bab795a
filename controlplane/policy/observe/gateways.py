"""Reads `/signals` of every gateway each second, all at once: one that hangs delays no other."""

import asyncio
import threading
import time
from collections.abc import Callable, Container, Iterable

import aiohttp
import msgspec
import structlog

from controlplane.core.formatting import shortened
from controlplane.policy.observe.core.traffic import NoGateway, Traffic
from inference.contract.gateway_signals import GatewaySignals

log = structlog.get_logger(__name__)

TIMEOUT_S = 0.9
MAX_BYTES = 8 << 20


class Gateways(threading.Thread):
    """Daemon thread. `traffic()` is what it knows; `stop()` ends it. `others` are gateways that are not ready, `strangers`
    those that may be none: they are asked without the token.
    """

    def __init__(
        self,
        urls: Callable[[], Iterable[str]],
        token: str,
        every_s: float = 1.0,
        *,
        others: Callable[[], Iterable[str]] = tuple,
        strangers: Callable[[], Container[str]] = frozenset,
    ) -> None:
        super().__init__(name="signals", daemon=True)
        self._urls, self._others, self._strangers, self._every_s = urls, others, strangers, every_s
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
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
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S)) as session:
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
        strangers = self._strangers()
        answers = await asyncio.gather(*(self._signals(session, url, url in strangers) for url in urls))
        others = frozenset(urls) - ready.keys()
        self._traffic = self._traffic.next(int(time.time() * 1_000), dict(zip(urls, answers, strict=True)), others)
        self._round.set()

    async def _signals(self, session: aiohttp.ClientSession, url: str, stranger: bool) -> GatewaySignals | str:
        """The answer, or why there is none."""
        headers = {} if stranger else self._headers
        try:
            async with session.get(f"{url}/signals", headers=headers, allow_redirects=False) as response:
                body = await response.content.read(MAX_BYTES)
                while not response.content.at_eof() and len(body) < MAX_BYTES:
                    body += await response.content.read(MAX_BYTES - len(body))
                if response.status == 404:  # every gateway has /signals
                    return NoGateway(f"{url} is no gateway: it has no /signals")
                if response.status == 401 and stranger:
                    return f"{url} gets no token: its Deployment has no label weir.dev/component: gateway"
                if response.status != 200:
                    return f"{url}/signals answers {response.status}"
                return msgspec.json.decode(body, type=GatewaySignals)
        except TimeoutError:
            return f"{url}/signals does not answer within {TIMEOUT_S:g} s"
        except (aiohttp.ClientError, OSError) as error:
            return shortened(f"{url}/signals cannot be read: {error}", 300)
        except msgspec.DecodeError as error:
            return shortened(f"{url}/signals is not understood: {error}", 300)
