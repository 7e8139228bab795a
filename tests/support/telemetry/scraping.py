"""A scraper that runs beside a test and writes straight into a store."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from controlplane.telemetry.ingest.sample_intake import Intake
from controlplane.telemetry.ingest.scrape.scraper import Scraper
from controlplane.telemetry.ingest.scrape.targets import FILE
from controlplane.telemetry.metrics.admission import Admission
from controlplane.telemetry.metrics.batch import Builder
from controlplane.telemetry.metrics.sample_columns import sample_tables
from controlplane.telemetry.store import Store

from .stored_metrics import YEARS_NS


class Straight(Intake):
    """Keeps samples in the store at once, without a spool."""

    def __init__(self, store: Store) -> None:
        self._store, self._retention_ns = store, YEARS_NS
        self.admission = Admission(1_000_000)

    async def keep(self, builder: Builder) -> None:
        tables = sample_tables([builder.batch()])
        await asyncio.to_thread(self._store.writer.insert_metric_columns, **tables)
        self.admission.learn(list(builder.definitions))


@contextmanager
def scraping(store: Store, home: Path, setting: str = "") -> Iterator[None]:
    """Scrapes the targets of `setting` and of the file in `home` (see `list_targets`), which it reads again ten times a second."""
    loop = asyncio.new_event_loop()
    running = loop.create_task(Scraper(Straight(store), setting, home, reload_s=0.1).run())

    def run() -> None:
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(running)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(running.cancel)
        thread.join()
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def list_targets(home: Path, *targets: dict[str, object]) -> None:
    """As the fleet lists them."""
    (home / FILE).write_text(json.dumps(targets))
