"""Scrapes each target in its interval. A series that a page no longer has gets a stale marker."""

import asyncio
import contextlib
import os
import time
from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

import aiohttp
import structlog

from controlplane.core.formatting import system_words
from controlplane.core.seldom import Seldom
from controlplane.telemetry.ingest.sample_intake import Intake
from controlplane.telemetry.ingest.spool.writer import SpoolFullError
from controlplane.telemetry.metrics.batch import Builder, Scrape
from controlplane.telemetry.metrics.core.stale import STALE

from . import page
from .page import PageError, Sample
from .targets import Target, TargetsError, named, of_fleet, unique

log = structlog.get_logger(__name__)

RELOAD_S = 5.0
"""How often the lists of targets are read again, s."""
AT_ONCE = 32
"""Pages read at once, which bounds memory."""
MAX_TOKEN_BYTES = 16 * 1024


class Scraper:
    """Scrapes until cancelled. `setting` is WEIR_SCRAPE_TARGETS, `own` are the targets that the caller started."""

    def __init__(
        self, intake: Intake, setting: str, home: Path, reload_s: float = RELOAD_S, own: Sequence[Target] = ()
    ) -> None:
        self._intake, self._setting, self._home, self._reload_s, self._own = intake, setting, home, reload_s, own
        self._running: dict[str, tuple[Target, asyncio.Task[None]]] = {}
        self._places = asyncio.Semaphore(AT_ONCE)
        self._logged = ""

    @property
    def targets(self) -> int:
        return len(self._running)

    async def run(self) -> None:
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session:
            try:
                while True:
                    await self._follow(session)
                    await asyncio.sleep(self._reload_s)
            finally:
                await _end([task for _, task in self._running.values()])

    def _load(self) -> list[Target]:
        return unique([*named(self._setting), *of_fleet(self._home), *self._own])

    async def _follow(self, session: aiohttp.ClientSession) -> None:
        """Start new targets of the lists, and end removed ones. A list that cannot be used changes nothing, and is logged once."""
        try:
            wanted = {target.key: target for target in await asyncio.to_thread(self._load)}
        except Exception as error:  # noqa: BLE001  (no list may end the process that receives spans)
            reason = str(error) if isinstance(error, TargetsError) else f"{type(error).__name__}: {error}"
            if reason != self._logged:
                log.error("scrape.targets_refused", reason=reason, kept=len(self._running))  # noqa: TRY400
            self._logged = reason
            return
        self._logged = ""
        removed = [key for key, (target, _) in self._running.items() if wanted.get(key) != target]
        await _end([self._running.pop(key)[1] for key in removed])
        for key in wanted.keys() - self._running.keys():
            loop = _TargetLoop(wanted[key], self._intake, session, self._places)
            self._running[key] = wanted[key], asyncio.create_task(loop.run())


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class _TargetLoop:
    """Scrapes one target. It remembers the samples of the last page, to end series that the next page does not have."""

    def __init__(
        self, target: Target, intake: Intake, session: aiohttp.ClientSession, places: asyncio.Semaphore
    ) -> None:
        self._target, self._intake, self._session, self._places = target, intake, session, places
        self._seen: dict[int, Sample] = {}
        self._up: bool | None = None
        self._seldom = Seldom()

    async def run(self) -> None:
        interval_s = self._target.interval_s
        try:
            await asyncio.sleep(offset_s(self._target.key, interval_s, time.time()))
            while True:
                began = time.monotonic()
                try:
                    await self._once()
                    if self._seldom.works():
                        log.info("scrape.kept_again", url=self._target.url)
                except SpoolFullError as full:
                    if self._seldom.fails(full):
                        log.warning("scrape.not_kept", url=self._target.url, reason=str(full))
                except Exception as error:
                    if self._seldom.fails(error):
                        log.exception("scrape.failed", url=self._target.url)  # a fault of this code; it is tried again
                await asyncio.sleep(max(0.0, interval_s - (time.monotonic() - began)))
        except asyncio.CancelledError:
            with contextlib.suppress(SpoolFullError):  # the target was removed, so its series end
                builder = self._intake.builder()
                self._ended(builder, time.time_ns(), set())
                await asyncio.shield(self._intake.keep(builder))
            raise

    async def _once(self) -> None:
        time_ns, began = time.time_ns(), time.monotonic()
        scraped: list[Sample] = []
        error = ""
        try:
            async with self._places, asyncio.timeout(self._target.timeout_s):
                body, content_type = await self._request()
            scraped = await asyncio.to_thread(page.read, body, content_type)
        except TimeoutError:
            error = f"no answer within {self._target.timeout_s:g} s"
        except aiohttp.ClientConnectorError as reason:
            error = f"no connection: {system_words(reason.os_error)}"
        except (aiohttp.ClientError, OSError, PageError) as reason:
            error = f"{type(reason).__name__}: {reason}"[:300] if not isinstance(reason, PageError) else str(reason)
        duration_ns = round((time.monotonic() - began) * 1e9)
        builder = self._intake.builder()
        taken = self._samples(builder, scraped, time_ns)
        self._ended(builder, time_ns, taken.keys())
        self._own(builder, time_ns, up=not error, duration_ns=duration_ns, samples=len(scraped))
        builder.scrapes.append(
            Scrape(
                time_ns,
                self._target.job,
                self._target.instance,
                self._target.url,
                not error,
                duration_ns,
                len(scraped),
                error,
            )
        )
        self._log_change(error)
        await self._intake.keep(builder)
        self._seen = taken

    async def _request(self) -> tuple[bytes, str]:
        headers = {"Accept": page.ACCEPT, "User-Agent": "weir"}
        if token := await asyncio.to_thread(_token, self._target):
            headers["Authorization"] = f"Bearer {token}"
        async with self._session.get(self._target.url, headers=headers, allow_redirects=False) as response:
            if response.status != 200:
                raise PageError(f"it answers {response.status}")
            body = bytearray()
            async for part in response.content.iter_chunked(64 * 1024):
                body += part
                if len(body) > page.MAX_BYTES:
                    raise PageError(f"the page has more than {page.MAX_BYTES} bytes: have it expose less")
            return bytes(body), response.headers.get("Content-Type", "")

    def _samples(self, builder: Builder, samples: list[Sample], time_ns: int) -> dict[int, Sample]:
        """Add the samples. Returns those whose series end when a later scrape misses them, by series id."""
        identity = self._target.identity
        taken: dict[int, Sample] = {}
        for sample in samples:
            series = builder.series(
                sample.metric, labelled(sample.labels, identity).items(), kind=sample.kind, unit=sample.unit
            )
            if series is None or not builder.add(series, sample.time_ns or time_ns, sample.value, sample.start_ns):
                continue
            if not sample.time_ns:  # a sample with a time of its own may be late
                taken[series] = sample
        return taken

    def _ended(self, builder: Builder, time_ns: int, still: Collection[int]) -> None:
        for series, sample in self._seen.items():
            if series not in still:
                pairs = labelled(sample.labels, self._target.identity).items()
                if builder.series(sample.metric, pairs, kind=sample.kind, unit=sample.unit) is not None:
                    builder.add(series, time_ns, STALE)

    def _own(self, builder: Builder, time_ns: int, *, up: bool, duration_ns: int, samples: int) -> None:
        """Add the metrics that Prometheus, too, adds for each scrape."""
        figures = {
            "up": float(up),
            "scrape_duration_seconds": duration_ns / 1e9,
            "scrape_samples_scraped": float(samples),
        }
        for name, value in figures.items():
            series = builder.series(name, self._target.identity.items(), kind="gauge")
            if series is not None:
                builder.add(series, time_ns, value)

    def _log_change(self, error: str) -> None:
        if error and self._up is not False:
            log.warning("scrape.target_lost", job=self._target.job, url=self._target.url, reason=error)
        elif not error and self._up is False:
            log.info("scrape.target_returned", job=self._target.job, url=self._target.url)
        self._up = not error


def labelled(labels: Mapping[str, str], identity: Mapping[str, str]) -> dict[str, str]:
    """A sample's labels with its target's. Where both have a label the target's counts, and the sample's is kept as `exported_…`."""
    return {(f"exported_{name}" if name in identity else name): value for name, value in labels.items()} | dict(
        identity
    )


def offset_s(key: str, interval_s: float, now_s: float) -> float:
    """How long to wait for the target's place in the interval, s. The place depends on the key only, which spreads targets evenly."""
    place_s = int.from_bytes(blake2b(key.encode(), digest_size=8).digest()) / 2**64 * interval_s
    return (place_s - now_s) % interval_s


def _token(target: Target) -> str:
    """The target's bearer token, or empty. Raises OSError where the file cannot be read."""
    if target.bearer_token_file:
        with Path(target.bearer_token_file).open() as file:
            return file.read(MAX_TOKEN_BYTES).strip()
    return os.environ.get(target.bearer_token_env, "") if target.bearer_token_env else ""
