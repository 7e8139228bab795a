"""Spans and request rows in ClickHouse, embedded or a cluster: the only SQL against it and the only importer of its clients.

`Store(dsn)` reads and writes; `migrate(dsn, retention_days)` makes the tables; `front.serve_embedded(home)` is the embedded server.
"""

from .burned import BurnedReader
from .causes import CauseReader
from .errors import StoreError, StoreInputError, StoreUnavailable
from .exemplars import ExemplarReader
from .export import Exporter
from .failures import FailureReader
from .homes import Homekeeper
from .latency import LatencyReader
from .metrics import MetricReader, MetricWriter
from .migrate import migrate
from .objectives import ObjectiveReader
from .overview import OverviewReader
from .requests import RequestReader
from .shares import Sharer
from .sort import Sorter
from .withdraw import Withdrawer
from .write import Writer

__all__ = ["Store", "StoreError", "StoreInputError", "StoreUnavailable", "migrate"]


class Store(
    LatencyReader,
    FailureReader,
    RequestReader,
    OverviewReader,
    ObjectiveReader,
    BurnedReader,
    CauseReader,
    Exporter,
    MetricReader,
    ExemplarReader,
    Writer,
    Withdrawer,
    Sharer,
    Homekeeper,
    Sorter,
    MetricWriter,
):
    """The store at a DSN (`clickhouse://user:password@host:port/database`). Blocking and thread-safe; connects at first use.

    Every method raises StoreUnavailable (try again after `retry_after_s`), StoreError (never will), or StoreInputError (a StoreError
    and a ValueError: an argument that names its remedy). From asyncio, call it through `asyncio.to_thread`.
    """
