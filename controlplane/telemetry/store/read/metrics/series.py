"""Reads metrics: series by name and labels, and their samples in a window."""

from collections.abc import Sequence

import numpy as np

from controlplane.telemetry.core.metric_types import Matcher, MetricInfo, Newest, Operator, SampleSeries, SeriesInfo
from controlplane.telemetry.core.query_types import Window

from ...client import StorePart
from ...errors import StoreInputError

MAX_METRICS = 200
MAX_SERIES = 5_000
MAX_SAMPLES = 2_000_000
"""The most that one call reads. Beyond it the call is refused with the remedy."""
MAX_MATCHERS = 20

_CONDITIONS: dict[Operator, str] = {
    "=": "labels[{{label_{n}:String}}] = {{value_{n}:String}}",
    "!=": "labels[{{label_{n}:String}}] != {{value_{n}:String}}",
    "=~": "match(labels[{{label_{n}:String}}], {{value_{n}:String}})",
    "!~": "NOT match(labels[{{label_{n}:String}}], {{value_{n}:String}})",
}


class MetricReader(StorePart):
    """`matchers` are combined with AND. Raises StoreUnavailableError or StoreError."""

    def metrics_found(self, text: str) -> list[MetricInfo]:
        """Metrics whose names contain each word of `text`, whatever its case; at most MAX_METRICS, by name."""
        conditions, parameters = ["1"], dict[str, object]()
        for n, word in enumerate(text.split()[:MAX_MATCHERS]):
            conditions.append(f"positionCaseInsensitive(metric, {{word_{n}:String}}) > 0")
            parameters[f"word_{n}"] = word
        rows = self._connection.rows(
            "SELECT toString(metric), argMax(toString(kind), seen_ns), argMax(toString(unit), seen_ns), uniqExact(series)"
            f" FROM series WHERE {' AND '.join(conditions)} GROUP BY metric ORDER BY metric LIMIT {MAX_METRICS}",
            parameters,
        )
        return [MetricInfo(*row) for row in rows]

    def series(self, metric: str, matchers: Sequence[Matcher] = ()) -> list[SeriesInfo]:
        """The metric's series, by labels. Raises StoreInputError where there are more than MAX_SERIES."""
        conditions, parameters = matching(metric, matchers)
        rows = self._connection.rows(
            f"SELECT series, metric, labels, kind, unit, delta FROM series FINAL WHERE {' AND '.join(conditions)}"
            f" ORDER BY series LIMIT {MAX_SERIES + 1}",
            parameters,
        )
        if len(rows) > MAX_SERIES:
            raise StoreInputError(f"metric {metric!r} has more than {MAX_SERIES} such series; give more label matchers")
        return sorted((SeriesInfo(*row) for row in rows), key=lambda info: sorted(info.labels.items()))

    def samples(
        self, metric: str, window: Window, matchers: Sequence[Matcher] = (), *, before_ns: int = 0
    ) -> list[SampleSeries]:
        """Samples with `from_ns - before_ns < time <= to_ns`: `before_ns` leaves room for a counter's value before the window.

        Series without a sample there are left out. Raises StoreInputError above MAX_SAMPLES.
        """
        return self.samples_of(metric, self.series(metric, matchers), window, before_ns=before_ns)

    def samples_of(
        self, metric: str, series: Sequence[SeriesInfo], window: Window, *, before_ns: int = 0
    ) -> list[SampleSeries]:
        """Like `samples`, of these series."""
        infos = {info.series: info for info in series}
        if not infos:
            return []
        rows = self._connection.rows(
            "SELECT series, groupArray(time_ns), groupArray(value), groupArray(start_ns) FROM ("
            "SELECT series, time_ns, value, start_ns FROM samples FINAL WHERE series IN {ids:Array(UInt64)}"
            " AND time_ns > {from_ns:Int64} AND time_ns <= {to_ns:Int64}"
            f" ORDER BY series, time_ns LIMIT {MAX_SAMPLES + 1}) GROUP BY series",
            {"ids": list(infos), "from_ns": max(0, window.from_ns - before_ns), "to_ns": window.to_ns},
        )
        if sum(len(row[1]) for row in rows) > MAX_SAMPLES:
            raise StoreInputError(
                f"more than {MAX_SAMPLES} samples of {metric!r} are in the window; give a shorter one, or more label matchers"
            )
        by_series = {
            row[0]: SampleSeries(
                infos[row[0]],
                np.array(row[1], np.int64),
                np.array(row[2], np.float64),
                np.array(row[3], np.int64),
            )
            for row in rows
        }
        return [by_series[series] for series in infos if series in by_series]

    def newest_of(self, metric: str, window: Window, matchers: Sequence[Matcher] = ()) -> list[Newest]:
        """Each series that has a value in the window, with its newest one; also those that have ended."""
        return self.newest_in(self.series(metric, matchers), window)

    def newest_in(self, series: Sequence[SeriesInfo], window: Window) -> list[Newest]:
        """Like `newest_of`, of these series."""
        infos = {info.series: info for info in series}
        if not infos:
            return []
        rows = self._connection.rows(
            "SELECT series, argMaxIf(value, time_ns, NOT isNaN(value)), maxIf(time_ns, NOT isNaN(value)),"
            " reinterpretAsUInt64(argMax(value, time_ns)) = 0x7FF0000000000002, countIf(NOT isNaN(value)) AS values FROM samples FINAL"
            " WHERE series IN {ids:Array(UInt64)} AND time_ns > {from_ns:Int64} AND time_ns <= {to_ns:Int64}"
            " GROUP BY series HAVING values > 0",
            {"ids": list(infos), "from_ns": window.from_ns, "to_ns": window.to_ns},
        )
        newest = {series: (value, time_ns, bool(ended), count) for series, value, time_ns, ended, count in rows}
        return [Newest(info, *newest[series]) for series, info in infos.items() if series in newest]


def matching(metric: str, matchers: Sequence[Matcher]) -> tuple[list[str], dict[str, object]]:
    """Conditions on the columns `metric` and `labels`, and their parameters. Raises StoreInputError for matchers that are none."""
    if len(matchers) > MAX_MATCHERS:
        raise StoreInputError(f"{len(matchers)} label matchers are too many; give at most {MAX_MATCHERS}")
    conditions, parameters = ["metric = {metric:String}"], dict[str, object](metric=metric)
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
    return conditions, parameters
