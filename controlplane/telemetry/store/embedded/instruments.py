"""The metrics of the embedded store."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from .engine import EngineError

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)


class Instruments:
    """Metrics of one process. `waiting` returns how many statements wait or run."""

    def __init__(self, waiting: Callable[[], int]) -> None:
        self.registry = CollectorRegistry()
        self._seconds = Histogram(
            "weir_store_statement_seconds",
            "How long statements ran, results read; their wait for a place is not in it.",
            ["kind"],
            buckets=BUCKETS_S,
            registry=self.registry,
        )
        self._failed = Counter(
            "weir_store_statements_failed",
            "Statements that ClickHouse refused, by its code.",
            ["kind", "code"],
            registry=self.registry,
        )
        self._rows = Counter("weir_store_written_rows", "Rows that inserts wrote.", registry=self.registry)
        busy = Gauge("weir_store_statements_waiting", "Statements that wait or run now.", registry=self.registry)
        busy.set_function(waiting)
        ProcessCollector(registry=self.registry)
        for kind in ("read", "insert"):
            self._seconds.labels(kind)

    @contextmanager
    def timed(self, kind: Literal["read", "insert"]) -> Iterator[None]:
        began_s = time.perf_counter()
        try:
            yield
        except EngineError as error:
            self._failed.labels(kind, str(error.code)).inc()
            raise
        finally:
            self._seconds.labels(kind).observe(time.perf_counter() - began_s)

    def wrote(self, rows: int) -> None:
        self._rows.inc(rows)
