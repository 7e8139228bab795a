"""Makes samples durable, whatever their protocol."""

import asyncio

from controlplane.telemetry.ingest.spool.frame import Kind
from controlplane.telemetry.ingest.spool.writer import SpoolWriter
from controlplane.telemetry.metrics.admission import Admission
from controlplane.telemetry.metrics.batch import Builder, encode

_DAY_NS = 86_400 * 10**9


class Intake:
    """Writes samples to the spool, and knows which series are active: there is one per receiver.

    `kept` and `rejected` count samples since the start.
    """

    def __init__(self, spool: SpoolWriter, *, max_series: int, retention_days: int) -> None:
        self._spool, self._retention_ns = spool, retention_days * _DAY_NS
        self.admission = Admission(max_series)
        self.kept = 0
        self.rejected: dict[str, int] = {}

    def builder(self) -> Builder:
        return Builder(self.admission, self._retention_ns)

    async def keep(self, builder: Builder) -> None:
        """Returns once the builder's samples would survive a kill. Raises SpoolFullError."""
        if len(builder) or builder.scrapes:
            await asyncio.wrap_future(self._spool.append(Kind.SAMPLES, encode(builder.batch())))
            self.admission.learn(list(builder.definitions))
            self.kept += len(builder)
        for reason, count in builder.rejected.items():
            self.rejected[reason] = self.rejected.get(reason, 0) + count
