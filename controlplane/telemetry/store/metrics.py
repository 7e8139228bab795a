"""Metric samples in and out: series by name and labels, their samples in a window, and the targets they are scraped from."""

from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from controlplane.telemetry.core.metric_types import (
    Instant,
    Matcher,
    MetricInfo,
    Newest,
    Operator,
    SampleSeries,
    SeriesInfo,
    TargetEvent,
    TargetState,
)

from ..core.query_types import Window
from .client import Connection
from .errors import StoreInputError

MAX_SERIES = 5_000
MAX_SAMPLES = 2_000_000
"""What one call reads at most; past it the caller is asked to narrow its question."""
MAX_MATCHERS = 20

SAMPLE_SCHEMA = pa.schema(
    [
        pa.field("series", pa.uint64()),
        pa.field("time_ns", pa.int64()),
        pa.field("start_ns", pa.int64()),
        pa.field("value", pa.float64()),
    ]
)
SERIES_SCHEMA = pa.schema(
    [
        pa.field("metric", pa.string()),
        pa.field("series", pa.uint64()),
        pa.field("kind", pa.string()),
        pa.field("unit", pa.string()),
        pa.field("delta", pa.bool_()),
        pa.field("labels", pa.map_(pa.string(), pa.string())),
        pa.field("seen_ns", pa.int64()),
    ]
)
SCRAPE_SCHEMA = pa.schema(
    [
        pa.field("time_ns", pa.int64()),
        pa.field("job", pa.string()),
        pa.field("instance", pa.string()),
        pa.field("url", pa.string()),
        pa.field("up", pa.bool_()),
        pa.field("duration_ns", pa.uint64()),
        pa.field("samples", pa.uint32()),
        pa.field("error", pa.string()),
    ]
)

_CONDITIONS: dict[Operator, str] = {
    "=": "labels[{{label_{n}:String}}] = {{value_{n}:String}}",
    "!=": "labels[{{label_{n}:String}}] != {{value_{n}:String}}",
    "=~": "match(labels[{{label_{n}:String}}], {{value_{n}:String}})",
    "!~": "NOT match(labels[{{label_{n}:String}}], {{value_{n}:String}})",
}


class MetricReader(Connection):
    """Reads. `matchers` are combined with AND."""

    def metric_names(self, prefix: str = "", limit: int = 1000) -> list[str]:
        found = self.rows(
            "SELECT DISTINCT metric FROM series WHERE startsWith(metric, {prefix:String}) ORDER BY metric LIMIT {limit:UInt32}",
            {"prefix": prefix, "limit": limit},
        )
        return [name for (name,) in found]

    def metrics_found(self, text: str = "", limit: int = 200) -> list[MetricInfo]:
        """Metrics whose names contain each word of `text`, whatever its case; by name."""
        conditions, parameters = ["1"], dict[str, object](limit=limit)
        for n, word in enumerate(text.split()[:MAX_MATCHERS]):
            conditions.append(f"positionCaseInsensitive(metric, {{word_{n}:String}}) > 0")
            parameters[f"word_{n}"] = word
        found = self.rows(
            "SELECT toString(metric), argMax(toString(kind), seen_ns), argMax(toString(unit), seen_ns), uniqExact(series)"
            f" FROM series WHERE {' AND '.join(conditions)} GROUP BY metric ORDER BY metric LIMIT {{limit:UInt32}}",
            parameters,
        )
        return [MetricInfo(*row) for row in found]

    def series(self, metric: str, matchers: Sequence[Matcher] = ()) -> list[SeriesInfo]:
        """The metric's series, by labels. Raises StoreInputError where there are more than MAX_SERIES."""
        if len(matchers) > MAX_MATCHERS:
            raise StoreInputError(f"{len(matchers)} label matchers are too many; give at most {MAX_MATCHERS}")
        conditions, parameters = ["metric = {metric:String}"], {"metric": metric}
        for n, matcher in enumerate(matchers):
            condition = _CONDITIONS.get(matcher.operator)
            if condition is None:
                raise StoreInputError(f"operator {matcher.operator!r} is unknown; use one of {', '.join(_CONDITIONS)}")
            regular = matcher.operator in ("=~", "!~")
            conditions.append(condition.format(n=n))
            parameters |= {
                f"label_{n}": matcher.label,
                f"value_{n}": f"^(?:{matcher.value})$" if regular else matcher.value,
            }
        found = self.rows(
            f"SELECT series, metric, labels, kind, unit, delta FROM series FINAL WHERE {' AND '.join(conditions)}"
            f" ORDER BY series LIMIT {MAX_SERIES + 1}",
            parameters,
        )
        if len(found) > MAX_SERIES:
            raise StoreInputError(f"metric {metric!r} has more than {MAX_SERIES} such series; give more label matchers")
        return sorted((SeriesInfo(*row) for row in found), key=lambda info: sorted(info.labels.items()))

    def samples(
        self, metric: str, window: Window, matchers: Sequence[Matcher] = (), *, before_ns: int = 0
    ) -> list[SampleSeries]:
        """Samples with `from_ns - before_ns < time <= to_ns`; `before_ns` is how far back what a counter had before is looked for.

        Series without a sample there are left out. Raises StoreInputError past MAX_SAMPLES.
        """
        return self.samples_of(metric, self.series(metric, matchers), window, before_ns=before_ns)

    def samples_of(
        self, metric: str, series: Sequence[SeriesInfo], window: Window, *, before_ns: int = 0
    ) -> list[SampleSeries]:
        """The same of series that are known already."""
        known = {info.series: info for info in series}
        if not known:
            return []
        found = self.rows(
            "SELECT series, groupArray(time_ns), groupArray(value), groupArray(start_ns) FROM ("
            "SELECT series, time_ns, value, start_ns FROM samples FINAL WHERE series IN {ids:Array(UInt64)}"
            " AND time_ns > {from_ns:Int64} AND time_ns <= {to_ns:Int64}"
            f" ORDER BY series, time_ns LIMIT {MAX_SAMPLES + 1}) GROUP BY series",
            {"ids": list(known), "from_ns": max(0, window.from_ns - before_ns), "to_ns": window.to_ns},
        )
        if sum(len(row[1]) for row in found) > MAX_SAMPLES:
            raise StoreInputError(
                f"more than {MAX_SAMPLES} samples of {metric!r} are in the window; give a shorter one, or more label matchers"
            )
        made = {
            row[0]: SampleSeries(
                known[row[0]],
                np.array(row[1], np.int64),
                np.array(row[2], np.float64),
                np.array(row[3], np.int64),
            )
            for row in found
        }
        return [made[series] for series in known if series in made]

    def latest(
        self, metric: str, at_ns: int, matchers: Sequence[Matcher] = (), *, lookback_ns: int = 300 * 10**9
    ) -> list[Instant]:
        """Each series' newest sample at `at_ns`, with its age. A series that ended (stale), or is older than `lookback_ns`, is left out."""
        known = {info.series: info for info in self.series(metric, matchers)}
        if not known:
            return []
        found = self.rows(
            "SELECT series, max(time_ns) AS newest, argMax(value, time_ns) FROM samples FINAL"
            " WHERE series IN {ids:Array(UInt64)} AND time_ns > {from_ns:Int64} AND time_ns <= {to_ns:Int64}"
            " GROUP BY series HAVING reinterpretAsUInt64(argMax(value, time_ns)) != 0x7FF0000000000002",
            {"ids": list(known), "from_ns": at_ns - lookback_ns, "to_ns": at_ns},
        )
        newest = {series: (time_ns, value) for series, time_ns, value in found}
        return [
            Instant(info, newest[series][1], newest[series][0], at_ns - newest[series][0])
            for series, info in known.items()
            if series in newest
        ]

    def newest_of(self, metric: str, window: Window, matchers: Sequence[Matcher] = ()) -> list[Newest]:
        """Each series that has a value in the window, with its newest one; also those that have ended."""
        known = {info.series: info for info in self.series(metric, matchers)}
        if not known:
            return []
        found = self.rows(
            "SELECT series, argMaxIf(value, time_ns, NOT isNaN(value)), maxIf(time_ns, NOT isNaN(value)),"
            " reinterpretAsUInt64(argMax(value, time_ns)) = 0x7FF0000000000002, countIf(NOT isNaN(value)) AS values FROM samples FINAL"
            " WHERE series IN {ids:Array(UInt64)} AND time_ns > {from_ns:Int64} AND time_ns <= {to_ns:Int64}"
            " GROUP BY series HAVING values > 0",
            {"ids": list(known), "from_ns": window.from_ns, "to_ns": window.to_ns},
        )
        newest = {series: (value, time_ns, bool(ended), count) for series, value, time_ns, ended, count in found}
        return [Newest(info, *newest[series]) for series, info in known.items() if series in newest]

    def targets(self, window: Window) -> list[TargetState]:
        """The state of every target scraped in the window, by job and instance."""
        found = self.rows(
            "SELECT job, instance, argMax(url, time_ns), argMax(up, time_ns) AS now_up,"
            " greatest(maxIf(time_ns, up), maxIf(time_ns, NOT up)) AS newest,"
            " min(time_ns) AS oldest, if(now_up, maxIf(time_ns, NOT up), maxIf(time_ns, up)) AS opposite,"
            " argMax(duration_ns, time_ns), argMax(samples, time_ns), argMax(error, time_ns),"
            " groupArray(time_ns) AS times"
            " FROM scrapes FINAL WHERE time_ns > {from_ns:Int64} AND time_ns <= {to_ns:Int64}"
            " GROUP BY job, instance ORDER BY job, instance",
            {"from_ns": window.from_ns, "to_ns": window.to_ns},
        )
        return [
            TargetState(
                job=job,
                instance=instance,
                url=url,
                up=up,
                since_ns=min((time for time in times if time > opposite), default=oldest),
                time_ns=newest,
                duration_ns=duration,
                samples=samples,
                error=error,
                interval_ns=round(median(np.diff(sorted(times)).tolist())) if len(times) > 1 else None,
            )
            for job, instance, url, up, newest, oldest, opposite, duration, samples, error, times in found
        ]

    def target_events(self, window: Window) -> list[TargetEvent]:
        """When targets went down and came back in the window, by time. A target's first scrape is an event where it is down."""
        found = self.rows(
            "SELECT time_ns, job, instance, up, error FROM ("
            "SELECT time_ns, job, instance, up, error, lagInFrame(up, 1, true) OVER"
            " (PARTITION BY job, instance ORDER BY time_ns ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS before"
            " FROM scrapes FINAL WHERE time_ns > {from_ns:Int64} AND time_ns <= {to_ns:Int64}"
            ") WHERE up != before ORDER BY time_ns, job, instance",
            {"from_ns": window.from_ns, "to_ns": window.to_ns},
        )
        return [TargetEvent(*row) for row in found]


class MetricWriter(Connection):
    """Inserts columns in the shapes above. Repeating a batch is harmless. Raises StoreUnavailableError or StoreError."""

    def insert_metric_columns(
        self,
        *,
        series: pa.Table | None = None,
        samples: pa.Table | None = None,
        scrapes: pa.Table | None = None,
        exemplars: pa.Table | None = None,
    ) -> None:
        """Series first: a sample in the store always has its labels there."""
        tables: dict[str, Any] = {"series": series, "samples": samples, "scrapes": scrapes, "exemplars": exemplars}
        for name, table in tables.items():
            if table is not None and len(table):
                self.insert_arrow(name, table)
