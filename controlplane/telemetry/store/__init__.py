"""Keeps spans, requests and metrics in ClickHouse, embedded or a cluster. No other package has SQL for it or imports its clients.

`Store(dsn)` reads and writes, `migrate(dsn, retention_days)` makes the tables, and `embedded.front.serve_embedded(caller)` is the
embedded server.
"""

from .errors import StoreError, StoreInputError, StoreLimitError, StoreUnavailableError
from .maintenance.demo import DemoFiller
from .maintenance.migrate import migrate
from .maintenance.rollups import RollupFiller
from .read.burned import BurnedReader
from .read.causes import CauseReader
from .read.demand import DemandReader
from .read.export import Exporter
from .read.failures import FailureReader
from .read.latency import LatencyReader
from .read.metrics.exemplars import ExemplarReader
from .read.metrics.rollups import MetricRollupReader
from .read.metrics.scrapes import ScrapeReader
from .read.objectives import ObjectiveReader
from .read.overview import OverviewReader
from .read.policies.canary import CanaryReader
from .read.policies.replayed import ReplayedReader
from .read.replica_load import ReplicaLoadReader
from .read.requests import RequestReader
from .write.append import Writer
from .write.loads import LoadStore
from .write.lost_traces import LostTraceStore
from .write.metrics import MetricWriter
from .write.shares import ShareStore
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
    CanaryReader,
    ReplayedReader,
    ReplicaLoadReader,
    DemandReader,
    Exporter,
    MetricRollupReader,
    ScrapeReader,
    ExemplarReader,
    Writer,
    Withdrawer,
    ShareStore,
    LostTraceStore,
    LoadStore,
    DemoFiller,
    RollupFiller,
    MetricWriter,
):
    """The store at a DSN (`clickhouse://user:password@host:port/database`). Blocking and thread-safe; connects at first use.

    Every method raises StoreUnavailableError (retryable) or StoreError (permanent); StoreInputError names a wrong argument and the
    remedy. From asyncio, call it through `asyncio.to_thread`.
    """
