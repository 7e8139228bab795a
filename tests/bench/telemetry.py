"""The telemetry process as a bench starts it: embedded store, its own home, all settings at their defaults."""

import json
import os
import sys
import time
import urllib.request
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError

from controlplane.telemetry.store import Store, access
from tests.bench.processes import BenchError, Child, free_port, start, start_redis


@dataclass(frozen=True)
class Telemetry:
    child: Child
    port: int
    store: Store

    def stored(self) -> int:
        """Spans a query sees."""
        return int(self.store.rows("SELECT count() FROM spans")[0][0])

    def distinct(self) -> int:
        """Spans a query sees, each identity once."""
        return int(self.store.rows("SELECT count() FROM spans FINAL")[0][0])

    def requests(self) -> int:
        return int(self.store.rows("SELECT count() FROM requests FINAL")[0][0])

    def rows(self) -> tuple[int, int]:
        """Requests that a query sees, and the sum of the spans they are made of."""
        counted, spans = self.store.rows("SELECT count(), sum(span_count) FROM requests FINAL")[0]
        return int(counted), int(spans)

    def present(self, trace_ids: list[bytes]) -> set[bytes]:
        """Which of these traces have their ledger row, which is the last thing written."""
        ids = ", ".join(f"toFixedString(unhex('{trace_id.hex()}'), 16)" for trace_id in trace_ids)
        found = self.store.rows(f"SELECT hex(trace_id) FROM requests WHERE trace_id IN ({ids})")
        return {bytes.fromhex(row[0]) for row in found}

    def bytes_on_disk(self) -> dict[str, int]:
        """Compressed bytes with marks and indexes of the parts that count, by table."""
        rows = self.store.rows(
            "SELECT table, sum(bytes_on_disk) FROM system.parts WHERE active AND database = currentDatabase() GROUP BY table"
        )
        return {str(table): int(size) for table, size in rows}


def settle(store: Store) -> None:
    """Wait until the store has merged what it means to merge, for two minutes at most."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and store.rows("SELECT count() FROM system.merges")[0][0]:
        time.sleep(0.5)


def telemetry(folder: Path, stack: ExitStack) -> Telemetry:
    """Started and ready: `/readyz` says 200."""
    home, port, server = folder / "home", free_port(), start_redis(stack, folder)
    home.mkdir()
    env = {
        "WEIR_HOME": str(home),
        "WEIR_OTLP_HTTP_PORT": str(port),
        "WEIR_OTLP_GRPC_PORT": str(free_port()),
        "WEIR_REDIS_URL": server.url,
        "WEIR_PIPELINES": str(os.cpu_count() or 1),  # as docs/telemetry.md advises for a machine of its own
    }
    child = start(stack, "telemetry", [sys.executable, "-m", "controlplane.telemetry"], folder, env, port=port)
    deadline = time.monotonic() + 60
    while not _ready(port):
        if time.monotonic() > deadline:
            raise BenchError("telemetry listens but was not ready within 60 s")
        time.sleep(0.1)
    store_port = int((home / "run" / "store-port").read_text())
    return Telemetry(child, port, Store(access.dsn(home, store_port)))


def _ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as response:
            return bool(json.load(response)["ready"])
    except (URLError, OSError, ValueError):
        return False
