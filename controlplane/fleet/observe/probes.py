"""Sends a probe to a component, over HTTP or Redis' protocol. Every answer is bounded in size."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from urllib.parse import quote

import aiohttp
from redis.asyncio import Redis
from redis.maint_notifications import MaintNotificationsConfig

from controlplane.fleet.observe.core import gateway_report, ready, redis_info, triton
from controlplane.fleet.observe.core import replica as of_replica
from controlplane.fleet.observe.core.gateway_report import ReplicaReport
from controlplane.fleet.observe.core.reading import Reading

Probe = Callable[[aiohttp.ClientSession], Awaitable[Reading]]

MAX_ANSWER_BYTES = 4 << 20


async def get(session: aiohttp.ClientSession, url: str, token: str = "") -> tuple[int, str]:
    """Status and text of `url`. Raises aiohttp.ClientError, TimeoutError; ValueError when the answer is too long."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with session.get(url, headers=headers, allow_redirects=False) as response:
        body = await response.content.read(MAX_ANSWER_BYTES + 1)
        while len(body) <= MAX_ANSWER_BYTES and (part := await response.content.read(MAX_ANSWER_BYTES + 1 - len(body))):
            body += part
        if len(body) > MAX_ANSWER_BYTES:
            raise ValueError(f"{url} answers with more than {MAX_ANSWER_BYTES >> 20} MiB")
        return response.status, body.decode(errors="replace")


def process(url: str, token: str, names: ready.Names) -> Probe:
    """The probe of one of our own processes at `url`."""

    async def probe(session: aiohttp.ClientSession) -> Reading:
        ready_status, ready_text = await get(session, f"{url}/readyz")
        metrics_status, metrics_text = await get(session, f"{url}/metrics", token)
        return ready.reading(ready_status, ready_text, metrics_status, metrics_text, names)

    return probe


def redis(url: str) -> Probe:
    async def probe(_: aiohttp.ClientSession) -> Reading:
        # Only a managed Redis has maintenance notifications. A plain one counts their query as an error.
        no_notifications = MaintNotificationsConfig(enabled=False)
        async with Redis.from_url(url, decode_responses=True, maint_notifications_config=no_notifications) as client:
            return redis_info.reading(await client.info())

    return probe


class GatewayReports:
    """What the gateway says of replicas: read once in a round, by whichever probe is first, within `timeout_s`."""

    def __init__(self, url: str, token: str, timeout_s: float) -> None:
        self._url = url
        self._token = token
        self._timeout_s = timeout_s
        self._page: asyncio.Future[dict[tuple[str, str], ReplicaReport]] | None = None

    async def of(self, session: aiohttp.ClientSession, pool: str, name: str) -> ReplicaReport | None:
        """None where the gateway does not answer, or does not know the replica."""
        if self._page is None:
            self._page = asyncio.ensure_future(self._read(session))
        return (await asyncio.shield(self._page)).get((pool, name))

    async def _read(self, session: aiohttp.ClientSession) -> dict[tuple[str, str], ReplicaReport]:
        try:
            async with asyncio.timeout(self._timeout_s):
                return gateway_report.reports((await get(session, f"{self._url}/readyz", self._token))[1])
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return {}  # the gateway's own probe says so


def triton_replica(own: Probe | None, reports: GatewayReports, pool: str, name: str) -> Probe:
    """The probe of a Triton: `own` probes its server, where that has an HTTP address, and the gateway says what it is."""

    async def probe(session: aiohttp.ClientSession) -> Reading:
        if own is None:
            return of_replica.with_report(None, await reports.of(session, pool, name))
        reading, report = await asyncio.gather(own(session), reports.of(session, pool, name))
        return of_replica.with_report(reading, report)

    return probe


def openai_replica(metrics: str, reports: GatewayReports, pool: str, name: str) -> Probe:
    """The probe of a server with OpenAI's API, whose Prometheus page is at the URL `metrics` (empty: none). The gateway says
    whether it serves. Its page only adds figures; without the gateway, a page that answers says that the server is up.
    """

    async def page(session: aiohttp.ClientSession) -> Reading:
        status, text = await get(session, metrics)
        if status != ready.OK:
            raise ValueError(f"its metrics page {metrics} answers {status}")
        return of_replica.of_metrics(text.encode())

    async def probe(session: aiohttp.ClientSession) -> Reading:
        if not metrics:
            return of_replica.with_report(None, await reports.of(session, pool, name))
        reading, report = await asyncio.gather(page(session), reports.of(session, pool, name), return_exceptions=True)
        if isinstance(report, BaseException):
            raise report
        if isinstance(reading, BaseException) and (report is None or report.state == "unknown"):
            raise reading
        return of_replica.with_report(None if isinstance(reading, BaseException) else reading, report)

    return probe


def triton_server(http: str, metrics: str, model: str) -> Probe:
    """The probe of a Triton at the address `http`, with its metrics at the URL `metrics` (empty: none)."""

    async def probe(session: aiohttp.ClientSession) -> Reading:
        status, _ = await get(session, f"http://{http}/v2/health/ready")
        if status != triton.OK:
            return triton.reading(status, "", "", model)
        _, stats = await get(session, f"http://{http}/v2/models/stats")
        metrics_text = (await get(session, metrics))[1] if metrics else ""
        seen = triton.reading(status, stats, metrics_text, model)
        if seen.state != "up":
            return seen
        config_status, config = await get(session, f"http://{http}/v2/models/{quote(model, safe='')}/config")
        return (
            seen if config_status != triton.OK else replace(seen, figures={**seen.figures, **triton.batching(config)})
        )

    return probe
