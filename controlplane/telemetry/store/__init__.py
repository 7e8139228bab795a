"""Keeps spans, requests and metrics in ClickHouse, embedded or a cluster. No other package has SQL for it or imports its clients.

`Store(dsn)` reads and writes, `migrate(dsn, retention_days)` makes the tables, and `embedded.front.serve_embedded(home)` is the
embedded server.
"""

from .client import Connection
from .errors import StoreError, StoreInputError, StoreLimitError, StoreUnavailableError
from .maintenance.demo import DemoFiller
from .maintenance.erase import Eraser
from .maintenance.migrate import migrate
from .maintenance.rollups import RollupFiller
from .read.burned import BurnedReader
from .read.cache_counts import CacheReader
from .read.causes import CauseReader
from .read.demand import DemandReader
from .read.explain import ExplainReader
from .read.export import Exporter
from .read.latency import LatencyReader
from .read.metrics.rollups import MetricRollupReader
from .read.metrics.scrapes import ScrapeReader
from .read.objectives import ObjectiveReader
from .read.overview import OverviewReader
from .read.policies.canary import CanaryReader
from .read.policies.replayed import ReplayedReader
from .read.replica_load import ReplicaLoadReader
from .read.requests import RequestReader
from .write.writer import Writer

__all__ = ["Store", "StoreError", "StoreInputError", "StoreLimitError", "StoreUnavailableError", "migrate"]


class Store(Connection):
    """The store at a DSN (`clickhouse://user:password@host:port/database`). Blocking and thread-safe; connects at first use.

    What is read and written is by subject, each by its name: `store.latency.report(window)`. From asyncio, call it through
    `asyncio.to_thread`.
    """

    def __init__(self, dsn: str, *, connect_timeout_s: int = 5, timeout_s: int = 60, pool: int = 8) -> None:
        super().__init__(dsn, connect_timeout_s=connect_timeout_s, timeout_s=timeout_s, pool=pool)
        # requests, and figures of them
        self.requests = RequestReader(self)
        self.exports = Exporter(self)
        self.latency = LatencyReader(self)
        self.overview = OverviewReader(self, self.latency)
        self.explain = ExplainReader(self)
        self.causes = CauseReader(self)
        self.cached = CacheReader(self)
        # for objectives, plans and policies
        self.objectives = ObjectiveReader(self)
        self.burned = BurnedReader(self, self.explain)
        self.demand = DemandReader(self)
        self.replicas = ReplicaLoadReader(self)
        self.canaries = CanaryReader(self)
        self.replayed = ReplayedReader(self)
        # metrics
        self.metrics = MetricRollupReader(self)
        self.scrapes = ScrapeReader(self)
        # writing
        self.writer = Writer(self)
        self.eraser = Eraser(self)
        self.rollups = RollupFiller(self)
        self.demo = DemoFiller(self)
