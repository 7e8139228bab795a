"""Sends POSTs to destinations and GETs of the heartbeat, only to addresses that were checked."""

import asyncio
import ipaddress
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from controlplane.incidents.notify.delivery.core.outbound_address import (
    Allowed,
    BlockedError,
    check_addresses,
    check_url,
)
from controlplane.incidents.notify.delivery.core.retry import Answer, retry_after_s

EXCERPT_BYTES = 2_000
EXCERPT_TIMEOUT_S = 1.0
"""The status line is the answer. Its body is read only for the reason, and only for so long."""


class _CheckedResolver(AbstractResolver):
    """Resolves a name once, and answers only if requests may go to all its addresses: what was checked is what is connected to."""

    def __init__(self, allow: Allowed, plain: bool) -> None:
        self._allow, self._plain = allow, plain

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, family=family)
        texts = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
        check_addresses([ipaddress.ip_address(text) for text in texts], host, self._allow, self._plain)
        return [
            ResolveResult(
                hostname=host,
                host=text,
                port=port,
                family=socket.AF_INET6 if ":" in text else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for text in texts
        ]

    async def close(self) -> None:
        pass


class Client:
    """An async context manager, one per event loop. It follows no redirect, and uses no proxy and no cookies."""

    def __init__(self, allow: Allowed, timeout_s: float) -> None:
        self._allow, self._timeout_s = allow, timeout_s
        self._sessions: dict[str, aiohttp.ClientSession] = {}

    async def __aenter__(self) -> Self:
        for scheme in ("https", "http"):
            connector = aiohttp.TCPConnector(
                resolver=_CheckedResolver(self._allow, plain=scheme == "http"), use_dns_cache=False, limit=0
            )
            self._sessions[scheme] = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=self._timeout_s),
                headers={"User-Agent": "Weir"},
                trust_env=False,
            )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for session in self._sessions.values():
            await session.close()

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        return await self._request("POST", url, body, headers)

    async def get(self, url: str) -> Answer:
        return await self._request("GET", url, None, {})

    async def _request(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        """Raises nothing but CancelledError. Errors name no URL: it may be a secret."""
        try:
            target = URL(url)
            has_user = target.raw_user is not None or target.raw_password is not None
            check_url(target.scheme, target.raw_host or "", has_user, self._allow)
            session = self._sessions[target.scheme]
            async with session.request(method, target, data=body, headers=headers, allow_redirects=False) as response:
                excerpt = await _excerpt(response)
                pause_s = retry_after_s(response.headers.get("Retry-After"), datetime.now(UTC))
                return Answer(response.status, excerpt, pause_s)
        except BlockedError as error:
            return Answer(None, str(error), blocked=True)
        except (ValueError, aiohttp.InvalidURL):
            return Answer(None, "the address is not a URL: use https://host/path", blocked=True)
        except TimeoutError:
            return Answer(None, f"no answer within {self._timeout_s:g} s")
        except (aiohttp.ClientError, OSError) as error:
            reason = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
            text = reason.strerror if isinstance(reason, OSError) else None
            return Answer(None, f"{type(error).__name__}: {text}" if text else type(error).__name__)


async def _excerpt(response: aiohttp.ClientResponse) -> str:
    """The beginning of the body, as far as it comes in time."""
    try:
        async with asyncio.timeout(EXCERPT_TIMEOUT_S):
            return (await response.content.read(EXCERPT_BYTES)).decode(errors="replace")
    except (TimeoutError, aiohttp.ClientError, OSError):
        return ""
