"""How long the pages take on the server, and how much they send: a whole site (`web`, a store, Redis) over loopback, logged in.

`SPANS=1000000` measures with fewer spans (5 a request, over 24 hours) than the ten million.
"""

import asyncio
import gzip
import json
import os
import re
import time
import urllib.parse
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
import brotli

from controlplane.web.static_files import BROTLI_QUALITY
from tests.bench.figures import Figure, percentile, say
from tests.bench.loads.synthetic import SPANS_PER_REQUEST, load
from tests.bench.query import roll_up, settle
from tests.support.browser.site import Site, running_site
from tests.support.web import signals, traffic

SPANS = int(os.environ.get("SPANS", "10000000"))
ROUNDS = 20
RENEWALS = 6
DAY_NS = 86_400 * 10**9
OVERVIEW = "/"
CHART = "/latency"
LIVE = (
    "/",
    "/latency",
    "/latency?view=heatmap",
    "/requests",
    "/signals",
    "/objectives",
    "/objectives/chat-large-ttft",
    "/incidents",
)
PATHS = (
    *LIVE, "/latency?from=now-24h", "/latency?from=now-24h&model=chat-large", "/latency/explain?from=now-24h", "/requests?from=now-24h",
    "/causes", "/planning", "/planning/plan", "/policies", "/decisions", "/deliveries", "/silences", "/api/v1/docs", "/admin/",
    "/admin/fleet/pool/",
)  # fmt: skip
ASSETS = re.compile(r"""<(?:script[^>]* src|link rel="stylesheet" href)="([^"]+)""")
IMPORTS = re.compile(r"""@import url\("([^"]+)"\)""")


def run() -> Iterator[Figure]:
    with TemporaryDirectory(prefix="weir-bench-") as folder, running_site(Path(folder)) as site:
        now = time.time_ns()
        say(f"loading {SPANS:,} spans")
        load(site.store, SPANS // SPANS_PER_REQUEST, from_ns=now - DAY_NS, to_ns=now, seed=7)
        signals.fill(site.store, now)
        settle(site.store)
        roll_up(site.store)
        settle(site.store)
        yield from asyncio.run(_measured(site))


async def _measured(site: Site) -> list[Figure]:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        await _log_in(session, site)
        took: dict[str, list[int]] = {}
        for _ in range(ROUNDS):
            for path in PATHS:
                began = time.perf_counter_ns()
                async with session.get(f"{site.url}{path}") as answer:
                    await answer.read()
                    if answer.status != 200:
                        say(f"{path} answered {answer.status}")
                took.setdefault(path, []).append(time.perf_counter_ns() - began)
        p95 = {path: percentile(each, 0.95) / 1e6 for path, each in took.items()}
        for path, ms in sorted(p95.items(), key=lambda item: -item[1]):
            say(
                f"{ms:8.1f} ms  {path}: {median(took[path]) / 1e6:.0f} at the median, {max(took[path]) / 1e6:.0f} at most"
            )
        slowest = max(p95, key=lambda path: p95[path])
        figures = [
            Figure("pages.slowest_p95_ms", p95[slowest], "ms", f"{slowest}; {SPANS:,} spans"),
            Figure("pages.overview_p95_ms", p95[OVERVIEW], "ms", f"{SPANS:,} spans"),
            Figure(
                "pages.first_kb", await _weight(session, site, OVERVIEW) / 1024, "KB", "the overview, nothing cached"
            ),
            Figure(
                "pages.chart_kb", await _weight(session, site, CHART) / 1024, "KB", "the latency page, nothing cached"
            ),
        ]
        whole, renewed = {}, {}
        for path in LIVE:
            whole[path], renewed[path] = await _renewals(session, site, path)
            say(f"{renewed[path]:8.0f} B a renewal of {path}, {whole[path]:.0f} B the first")
        heaviest = max(renewed, key=lambda path: renewed[path])
        figures.append(Figure("pages.renewal_kb", renewed[heaviest] / 1024, "KB", heaviest))
        heaviest = max(whole, key=lambda path: whole[path])
        figures.append(Figure("pages.renewal_first_kb", whole[heaviest] / 1024, "KB", heaviest))
        return figures


async def _log_in(session: aiohttp.ClientSession, site: Site) -> None:
    async with session.get(f"{site.url}/login") as answer:
        [token] = re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', await answer.text())
    form = {"login": "admin", "password": site.password, "csrfmiddlewaretoken": token, "next": "/silences"}
    async with session.post(f"{site.url}/login", data=form, headers={"Referer": site.url}) as answer:
        assert answer.url.path == "/silences", "the log-in was refused"


async def _weight(session: aiohttp.ClientSession, site: Site, path: str) -> int:
    """Bytes on the wire of a page and its scripts and sheets, which are compressed as `manage.py collect` leaves them."""
    async with session.get(f"{site.url}{path}", headers={"Accept-Encoding": "gzip"}, auto_decompress=False) as answer:
        body = await answer.read()
    total, html = len(body), gzip.decompress(body).decode()
    wanted, seen = [urllib.parse.urljoin(site.url + path, each) for each in ASSETS.findall(html)], set()
    while wanted:
        url = wanted.pop()
        if url in seen:
            continue
        seen.add(url)
        async with session.get(url) as answer:
            text = await answer.read()
        total += len(brotli.compress(text, quality=BROTLI_QUALITY))
        if url.endswith(".css"):
            wanted += [urllib.parse.urljoin(url, each) for each in IMPORTS.findall(text.decode())]
    return total


async def _renewals(session: aiohttp.ClientSession, site: Site, path: str) -> tuple[float, float]:
    """Bytes of the first message, which is whole, and of a later one."""
    sizes: list[int] = []
    headers = {"Origin": site.url}
    with ThreadPoolExecutor(1) as aside:
        async with session.ws_connect(
            site.url.replace("http", "ws") + "/live", headers=headers, max_msg_size=0
        ) as socket:
            await socket.send_json({"watch": path, "number": 1})
            while len(sizes) < RENEWALS:
                now = time.time_ns()
                await asyncio.get_running_loop().run_in_executor(
                    aside, traffic.fill, site.store, 12, now - 3 * 10**9, now, len(sizes) + now % 1000
                )
                await socket.send_json({"renew": True})
                message: Any = await socket.receive(timeout=60)
                kind = "html" if "html" in json.loads(gzip.decompress(message.data)) else "changes"
                assert (kind == "html") == (not sizes), f"message {len(sizes)} of {path} has {kind}"
                sizes.append(len(message.data))
    return sizes[0], median(sizes[1:])
