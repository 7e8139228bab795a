"""Reads the rollups of gauges of load, out of which long charts are drawn, also of time whose samples are no longer kept."""

import time
from collections.abc import Sequence

import numpy as np

from controlplane.telemetry.core.metric_types import Matcher, Newest, RolledSeries, SeriesInfo
from controlplane.telemetry.core.query_types import Window
from inference.contract.server_metrics import LOAD_GAUGES

from ..retained import LONG_NS
from .series import MAX_SERIES, MetricReader, matching

GAUGES = (
    *LOAD_GAUGES, "nv_gpu_utilization", "nv_gpu_memory_used_bytes", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED",
    "weir_gateway_requests_in_flight", "weir_gateway_pool_waiting", "weir_gateway_pool_in_flight",
)  # fmt: skip
"""Gauges of load, which are kept as rollups: queue depth, use of KV cache and GPU, and requests in flight."""
STEP_S = 300
"""The step of the rollups that are read."""
STEP_NS = STEP_S * 10**9
SETTLED_S = 3600
"""What is younger is read from samples, s."""
MAX_UNBUILT, MAX_RUNS = 0.25, 20
"""Samples alone are read where more than this share of a window's five minutes, or more runs of them, are not up to date."""

_OF_BUILDS = (
    "start_s >= {from_s:UInt32} AND start_s < {to_s:UInt32} AND start_s NOT IN {unbuilt:Array(UInt32)}"
    " AND build IN (SELECT build FROM rollup_builds FINAL WHERE kind = 'metrics' AND step_s = 300"
    " AND start_s >= {from_s:UInt32} AND start_s < {to_s:UInt32})"
)


class MetricRollupReader(MetricReader):
    """Raises StoreUnavailableError or StoreError."""

    def gauge_cover(self, metric: str, window: Window) -> tuple[Window, list[Window]] | None:
        """The part of a window that is read from rollups, and windows within it and after it of which samples are read.

        None where samples alone are: the window is short, the metric has no rollups, or too much of it is not rolled up yet.
        """
        if metric not in GAUGES or window.to_ns - window.from_ns <= LONG_NS:
            return None
        settled_s = int(time.time() - SETTLED_S) // STEP_S * STEP_S
        from_s = window.from_ns // STEP_NS * STEP_S
        to_s = min(settled_s, window.to_ns // STEP_NS * STEP_S)
        if to_s <= from_s:
            return None
        rows = self._connection.rows(
            "SELECT start_s, touches != written FROM"
            " (SELECT toUInt32(stretch * 300) AS start_s, sum(touches) AS written FROM metric_touched"
            " WHERE stretch >= {first:UInt32} AND stretch < {end:UInt32} GROUP BY start_s) AS touched"
            " LEFT JOIN (SELECT start_s, touches FROM rollup_builds FINAL WHERE kind = 'metrics' AND step_s = 300"
            " AND start_s >= {from_s:UInt32} AND start_s < {to_s:UInt32}) AS built USING start_s ORDER BY start_s",
            {"from_s": from_s, "to_s": to_s, "first": from_s // STEP_S, "end": to_s // STEP_S},
        )
        unbuilt = [start_s for start_s, is_late in rows if is_late]
        runs: list[Window] = []
        for start_s in unbuilt:
            start_ns = start_s * 10**9
            begins_ns = runs.pop().from_ns if runs and runs[-1].to_ns == start_ns else start_ns
            runs.append(Window(begins_ns, start_ns + STEP_NS))
        if len(unbuilt) > MAX_UNBUILT * len(rows) or len(runs) > MAX_RUNS:
            return None
        return Window(from_s * 10**9, to_s * 10**9), [*runs, Window(to_s * 10**9, window.to_ns)]

    def rolled_gauges(
        self, series: Sequence[int], rolled: Window, rest: Sequence[Window], step_s: int
    ) -> list[RolledSeries]:
        """Samples of these series by step (a multiple of STEP_S), out of the rollups of `rolled` without those of `rest`."""
        rows = self._connection.rows(
            "SELECT series, groupArray(at), groupArray(sum_of), groupArray(count_of), groupArray(most_of) FROM ("
            "SELECT series, toUInt32(intDiv(start_s, {step_s:UInt32}) * {step_s:UInt32}) AS at, sum(mean * samples) AS sum_of,"
            " sum(samples) AS count_of, max(most) AS most_of FROM metric_rollups"
            f" WHERE series IN {{ids:Array(UInt64)}} AND {_OF_BUILDS} GROUP BY series, at ORDER BY series, at) GROUP BY series",
            {"ids": list(series), "step_s": step_s, **_parameters(rolled, rest)},
        )
        return [
            RolledSeries(
                of,
                np.array(starts, np.int64) * 10**9,
                np.array(sums, np.float64),
                np.array(counts, np.int64),
                np.array(most, np.float64),
            )
            for of, starts, sums, counts, most in rows
        ]

    def newest_gauges(
        self, metric: str, rolled: Window, rest: Sequence[Window], matchers: Sequence[Matcher] = ()
    ) -> list[Newest]:
        """Each series with a value in the rollups of `rolled`, without those of `rest`; the time is the end of its last five minutes.

        A series of which the store has no samples any more is among them.
        """
        conditions, parameters = matching(metric, matchers)
        rows = self._connection.rows(
            "SELECT series, any(labels), argMax(last, start_s), max(start_s), sum(samples) FROM metric_rollups"
            f" WHERE {_OF_BUILDS} AND {' AND '.join(conditions)} GROUP BY series ORDER BY series LIMIT {MAX_SERIES}",
            parameters | _parameters(rolled, rest),
        )
        known = {info.series: info for info in self.series(metric, matchers)}
        return [
            Newest(
                known.get(series) or SeriesInfo(series, metric, labels, "gauge", "", delta=False),
                last,
                (start_s + STEP_S) * 10**9,
                ended=False,
                samples=samples,
            )
            for series, labels, last, start_s, samples in rows
        ]


def _parameters(rolled: Window, rest: Sequence[Window]) -> dict[str, object]:
    unbuilt = [
        start_ns // 10**9
        for window in rest
        if window.from_ns < rolled.to_ns
        for start_ns in range(window.from_ns, window.to_ns, STEP_NS)
    ]
    return {"from_s": rolled.from_ns // 10**9, "to_s": rolled.to_ns // 10**9, "unbuilt": unbuilt}
