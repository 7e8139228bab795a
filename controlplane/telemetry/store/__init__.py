"""Spans and request rows in ClickHouse, embedded or a cluster: the only SQL against it and the only importer of its clients.

`Store(dsn)` reads and writes; `migrate(dsn, retention_days)` makes the tables; `front.serve_embedded(home)` is the embedded server.
"""

from .errors import StoreError, StoreInputError, StoreLimitError, StoreUnavailableError
from .maintenance.migrate import migrate
from .maintenance.presort import Sorter
from .metrics import MetricReader, MetricWriter
from .read.burned import BurnedReader
from .read.causes import CauseReader
from .read.exemplars import ExemplarReader
from .read.export import Exporter
from .read.failures import FailureReader
from .read.latency import LatencyReader
from .read.objectives import ObjectiveReader
from .read.overview import OverviewReader
from .read.requests import RequestReader
from .write.append import Writer
from .write.homes import Homekeeper
from .write.shares import Sharer
from .write.withdraw import Withdrawer

__all__ = ["Store", "StoreError", "StoreInputError", "StoreLimitError", "StoreUnavailableError", "migrate"]


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

    Every method raises StoreUnavailableError (try again after `retry_after_s`), StoreError (never will), or StoreInputError (a StoreError
    and a ValueError: an argument that names its remedy). From asyncio, call it through `asyncio.to_thread`.
    """
