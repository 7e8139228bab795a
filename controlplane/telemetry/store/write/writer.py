"""Inserts and withdraws what telemetry received. Rows replace the row of their identity, so repeating a batch is harmless."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from controlplane.telemetry.core.canary_rows import Score
from controlplane.telemetry.core.spans import Caller
from controlplane.telemetry.ledger.loads import Load
from controlplane.telemetry.ledger.row import LedgerRow

from ..client import StorePart
from ..errors import StoreInputError
from .arrow_columns import request_table
from .keys import RequestKey

_LOAD_TEXTS = ("adapter", "service", "model", "pool", "replica")
_IN_TRACES = "trace_id IN (SELECT toFixedString(unhex(arrayJoin({traces:Array(String)})), 16))"


class Writer(StorePart):
    """Each method raises StoreUnavailableError (send the same batch again later) or StoreError."""

    def insert_requests(self, rows: Sequence[LedgerRow], version: int | Sequence[int]) -> None:
        """Append ledger rows. Of rows with one (trace_id, request_id) the highest version counts.

        `version` is one for all or one for each; it grows with every amendment, as the time of writing in ns does.
        """
        if rows:
            try:
                table = request_table(rows, version)
            except (ValueError, TypeError, OverflowError) as error:
                raise StoreInputError(
                    f"a request row of this batch does not fit its column: {error}; insert the others without it"
                ) from error
            self.insert_request_columns(table)

    def insert_span_columns(self, columns: pa.Table) -> None:
        """Append spans as a table of `arrow_columns.SPAN_SCHEMA` (`span_table`). A span replaces one of the same trace and span id."""
        self._connection.insert_arrow("spans", columns)

    def insert_request_columns(self, columns: pa.Table) -> None:
        """Append request rows as a table of `arrow_columns.REQUEST_SCHEMA`."""
        self._connection.insert_arrow("requests", columns)

    def request_keys(self, trace_ids: Sequence[bytes]) -> set[RequestKey]:
        """The stored requests of these traces."""
        if not trace_ids:
            return set()
        rows = self._connection.rows(
            "SELECT entry_start_ns, trace_id, request_id FROM requests"
            f" WHERE {_IN_TRACES} GROUP BY entry_start_ns, trace_id, request_id HAVING argMax(withdrawn, version) = 0",
            {"traces": [trace_id.hex() for trace_id in trace_ids]},
        )
        return {RequestKey(start_ns, bytes(trace_id), bytes(request_id)) for start_ns, trace_id, request_id in rows}

    def withdraw_requests(self, keys: Sequence[RequestKey], version: int | Sequence[int]) -> None:
        """Hide every version of these rows up to `version` (one for all, or one for each), also those written later.

        A row of a higher version shows again. Costs one small insert.
        """
        if not keys:
            return
        columns = {
            "entry_start_ns": pa.array([key.entry_start_ns for key in keys], pa.uint64()),
            "trace_id": pa.array([key.trace_id for key in keys], pa.binary(16)),
            "request_id": pa.array([key.request_id for key in keys], pa.binary(8)),
            "version": pa.array([version] * len(keys) if isinstance(version, int) else version, pa.uint64()),
            "withdrawn": pa.array([1] * len(keys), pa.uint8()),
        }
        self._connection.insert_arrow("requests", pa.table(columns))

    def insert_shares(self, process: int, batch: int, shares: Sequence[int]) -> None:
        """Record that `process` closed these traces (see `share_of`) in batch `batch`."""
        if shares:
            columns = {"process": [process] * len(shares), "batch": [batch] * len(shares), "trace": shares}
            self._connection.insert_arrow(
                "shares", pa.table({name: pa.array(of, pa.uint64()) for name, of in columns.items()})
            )

    def shared(self, process: int, batch: int, age_s: int) -> dict[int, int]:
        """The traces of this batch that other processes closed within the last `age_s` seconds, and how many times."""
        rows = self._connection.rows(
            "SELECT trace, count() FROM shares"
            " WHERE process != {process:UInt64} AND taken_at >= now() - {age_s:UInt32}"
            " AND trace IN (SELECT trace FROM shares WHERE process = {process:UInt64} AND batch = {batch:UInt64})"
            " GROUP BY trace",
            {"process": process, "batch": batch, "age_s": age_s},
        )
        return dict(rows)

    def insert_lost_traces(self, callers: Mapping[bytes, Caller]) -> None:
        """Record the callers of these traces (16 raw bytes)."""
        if callers:
            columns = {
                "lost_trace_id": pa.array(list(callers), pa.binary(16)),
                "trace_id": pa.array([caller.trace_id for caller in callers.values()], pa.binary(16)),
                "parent_id": pa.array([caller.parent_id for caller in callers.values()], pa.binary(8)),
            }
            self._connection.insert_arrow("lost_traces", pa.table(columns))

    def lost_traces(self, trace_ids: Sequence[bytes]) -> dict[bytes, Caller]:
        """The callers of those of these traces that are lost."""
        rows = self._connection.rows(
            "SELECT lost_trace_id, trace_id, parent_id FROM lost_traces"
            " WHERE lost_trace_id IN (SELECT toFixedString(unhex(arrayJoin({traces:Array(String)})), 16)) ORDER BY noted_at",
            {"traces": [trace_id.hex() for trace_id in trace_ids]},
        )
        return {bytes(lost): Caller(bytes(trace_id), bytes(parent_id)) for lost, trace_id, parent_id in rows}

    def insert_scores(self, scores: Sequence[Score], at_ns: int) -> None:
        """Append what is said of answers at `at_ns`."""
        if scores:
            columns = {
                "trace_id": pa.array([bytes.fromhex(score.trace_id) for score in scores], pa.binary(16)),
                "name": [score.name for score in scores],
                "at_ns": pa.array([at_ns] * len(scores), pa.uint64()),
                "value": pa.array([score.value for score in scores], pa.float64()),
            }
            self._connection.insert_arrow("scores", pa.table(columns))

    def insert_loads(self, loads: Sequence[Load]) -> None:
        if loads:
            columns = {
                "trace_id": pa.array([load.trace_id for load in loads], pa.binary(16)),
                "span_id": pa.array([load.span_id for load in loads], pa.binary(8)),
                "start_ns": pa.array([load.start_ns for load in loads], pa.uint64()),
                "duration_ns": pa.array([max(0, load.end_ns - load.start_ns) for load in loads], pa.uint64()),
                **{name: pa.array([getattr(load, name) for load in loads], pa.string()) for name in _LOAD_TEXTS},
            }
            self._connection.insert_arrow("model_loads", pa.table(columns))

    def insert_metric_columns(
        self,
        *,
        series: pa.Table | None = None,
        samples: pa.Table | None = None,
        scrapes: pa.Table | None = None,
    ) -> None:
        """Inserts series first, so that a stored sample always has its labels."""
        tables: dict[str, Any] = {"series": series, "samples": samples, "scrapes": scrapes}
        for name, table in tables.items():
            if table is not None and len(table):
                self._connection.insert_arrow(name, table)
