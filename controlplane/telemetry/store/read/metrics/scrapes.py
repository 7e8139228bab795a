"""Reads the scrape targets: their state, and when they went down and came back."""

from statistics import median

import numpy as np

from controlplane.telemetry.core.metric_types import TargetEvent, TargetState
from controlplane.telemetry.core.query_types import Window

from ...client import StorePart


class ScrapeReader(StorePart):
    """Raises StoreUnavailableError or StoreError."""

    def targets(self, window: Window) -> list[TargetState]:
        """The state of every target scraped in the window, by job and instance."""
        rows = self._connection.rows(
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
            for job, instance, url, up, newest, oldest, opposite, duration, samples, error, times in rows
        ]

    def events(self, window: Window) -> list[TargetEvent]:
        """When targets went down and came back in the window, by time. A first scrape that failed counts as going down."""
        rows = self._connection.rows(
            "SELECT time_ns, job, instance, up, error FROM ("
            "SELECT time_ns, job, instance, up, error, lagInFrame(up, 1, true) OVER"
            " (PARTITION BY job, instance ORDER BY time_ns ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS before"
            " FROM scrapes FINAL WHERE time_ns > {from_ns:Int64} AND time_ns <= {to_ns:Int64}"
            ") WHERE up != before ORDER BY time_ns, job, instance",
            {"from_ns": window.from_ns, "to_ns": window.to_ns},
        )
        return [TargetEvent(*row) for row in rows]
