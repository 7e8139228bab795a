"""Reads exemplars: single measurements of series that name a trace."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from controlplane.telemetry.core.metric_types import SeriesInfo
from controlplane.telemetry.core.query_types import Window

from ...client import StorePart


@dataclass(frozen=True, slots=True)
class StoredExemplar:
    """A measurement `value`, in the unit of what was measured, and its trace. Ids are hexadecimal; `span_id` is empty where unknown."""

    info: SeriesInfo
    time_ns: int
    value: float
    trace_id: str
    span_id: str


@dataclass(frozen=True, slots=True)
class ExemplarsFound:
    """Some of those in a window, the newest first, and how many there are."""

    shown: list[StoredExemplar] = field(default_factory=list)
    total: int = 0


class ExemplarReader(StorePart):
    """Raises StoreUnavailableError or StoreError."""

    def of_series(self, series: Sequence[SeriesInfo], window: Window, limit: int = 100) -> ExemplarsFound:
        """At most `limit` of these series' exemplars with `from_ns < time <= to_ns`, spread over the window.

        The window is cut into `limit` slots; each slot's highest value is given, then each one's second highest, as far as there is room.
        """
        infos = {info.series: info for info in series}
        if not infos:
            return ExemplarsFound()
        ranked = self._connection.rows(
            "SELECT series, time_ns, value, lower(hex(trace_id)), if(span_id = toFixedString('', 8), '', lower(hex(span_id))), total FROM ("
            "SELECT series, time_ns, value, trace_id, span_id, count() OVER () AS total, row_number() OVER"
            " (PARTITION BY intDiv(time_ns - {from_ns:Int64} - 1, {slot_ns:Int64}) ORDER BY value DESC, time_ns DESC, trace_id) AS place"
            " FROM exemplars FINAL WHERE series IN {ids:Array(UInt64)}"
            " AND time_ns > {from_ns:Int64} AND time_ns <= {to_ns:Int64}"
            ") ORDER BY place, time_ns DESC, trace_id LIMIT {limit:UInt32}",
            {
                "ids": list(infos),
                "from_ns": window.from_ns,
                "to_ns": window.to_ns,
                "slot_ns": max(1, -(-(window.to_ns - window.from_ns) // limit)),
                "limit": limit,
            },
        )
        rows = [
            StoredExemplar(infos[number], time_ns, value, trace_id, span_id)
            for number, time_ns, value, trace_id, span_id, _ in ranked
        ]
        return ExemplarsFound(sorted(rows, key=lambda exemplar: -exemplar.time_ns), ranked[0][-1] if ranked else 0)
