"""Samples as flat columns, which receivers fill, the spool keeps and the pipeline inserts."""

import time
from array import array
from collections import Counter
from collections.abc import Iterable

import msgspec

from .admission import Admission, series_fault, time_fault
from .core.series import Definition, identity, labels_of

TOO_MANY = "more series than WEIR_METRICS_MAX_SERIES are active"


class Scrape(msgspec.Struct, frozen=True, gc=False):
    """One attempt to scrape a target. `error` is empty where it is up."""

    time_ns: int
    job: str
    instance: str
    url: str
    up: bool
    duration_ns: int
    samples: int
    error: str = ""


class Batch(msgspec.Struct, array_like=True, frozen=True):
    """The record in the spool. Columns are little-endian: series UInt64, time and start Int64 (ns, start 0 is unknown), value Float64."""

    definitions: list[Definition]
    series: bytes
    times: bytes
    starts: bytes
    values: bytes
    scrapes: list[Scrape] = []

    def __len__(self) -> int:
        return len(self.series) // 8


encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Batch).decode


class Builder:
    """Checks samples one by one and builds a Batch of the valid ones. `rejected` counts samples by reason."""

    def __init__(self, admission: Admission, retention_ns: int) -> None:
        self._admission, self._retention_ns = admission, retention_ns
        self._now_ns = time.time_ns()
        self.definitions: dict[int, Definition] = {}
        self._series, self._times, self._starts, self._values = array("Q"), array("q"), array("q"), array("d")
        self.scrapes: list[Scrape] = []
        self.rejected: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._series)

    def series(
        self,
        metric: str,
        pairs: Iterable[tuple[str, str]],
        *,
        kind: str = "unknown",
        unit: str = "",
        delta: bool = False,
        samples: int = 1,
    ) -> int | None:
        """The id with which samples of this series are added. None where it is refused, which counts `samples` as rejected."""
        labels = labels_of(pairs)
        series = identity(metric, labels, delta=delta)
        if self._admission.defined(series) or series in self.definitions:
            return series
        reason = series_fault(metric, labels)
        if not reason and not self._admission.admits(series, len(self.definitions)):
            reason = TOO_MANY
        if reason:
            self.reject(reason, samples)
            return None
        self.definitions[series] = Definition(series, metric, labels, kind, unit, delta)
        return series

    def add(self, series: int, time_ns: int, value: float, start_ns: int = 0) -> bool:
        """False where the sample is refused."""
        if reason := time_fault(time_ns, self._now_ns, self._retention_ns):
            self.reject(reason)
            return False
        self._series.append(series)
        self._times.append(time_ns)
        self._starts.append(max(start_ns, 0))
        self._values.append(value)
        return True

    def reject(self, reason: str, samples: int = 1) -> None:
        if samples:
            self.rejected[reason] += samples

    def batch(self) -> Batch:
        return Batch(
            list(self.definitions.values()),
            self._series.tobytes(),
            self._times.tobytes(),
            self._starts.tobytes(),
            self._values.tobytes(),
            self.scrapes,
        )
