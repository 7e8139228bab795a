"""Reads pages of request rows, and the requests and spans of traces."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from controlplane.telemetry.core.query_types import Failure, Filters, Order, Window
from controlplane.telemetry.core.spans import ROW_SPANS, Span
from controlplane.telemetry.ledger.row import LedgerRow

from ..client import StorePart
from ..errors import StoreInputError
from ..write import arrow_columns
from .cursor import Position, decode, encode
from .where import FAILED, where

MAX_PAGE = 1000
MAX_REASONS = 50
MAX_TRACES = 10_000
_SORT: dict[Order, str] = {"slowest": "e2e_ns", "newest": "entry_start_ns"}
_IN_TRACES = "trace_id IN (SELECT toFixedString(unhex(arrayJoin({traces:Array(String)})), 16))"
_OF_TRACE = "trace_id = toFixedString(unhex({trace:String}), 16)"
_ROW = ", ".join(arrow_columns.REQUEST_COLUMNS)
_SPAN = ", ".join(arrow_columns.SPAN_COLUMNS)
_OF_ONE = [name for name in arrow_columns.REQUEST_COLUMNS if name not in ("end_ns", "trace_id")]
_READ_OF_ONE = ", ".join(_OF_ONE)
_ONE_TRACE: Mapping[str, int] = {
    "max_threads": 1,  # a few granules of one part: further threads only cost their start
    "use_skip_indexes_on_data_read": 0,  # the Bloom filter leaves out parts before their columns are opened
    "query_plan_remove_unused_columns": 0,  # there are none, and looking for them takes an eighth of planning
    "query_plan_merge_expressions": 0,
}
"""Nearly all of such a query's time is per column and part, most of it planning."""


@dataclass(frozen=True, slots=True)
class RequestPage:
    rows: list[LedgerRow]
    next_cursor: str | None


class RequestReader(StorePart):
    """Queries of the list of requests and of the trace page."""

    def page(
        self,
        window: Window,
        filters: Filters | None = None,
        order: Order = "slowest",
        limit: int = 50,
        cursor: str | None = None,
        min_e2e_ns: int = 0,
        max_e2e_ns: int | None = None,
    ) -> RequestPage:
        """A page of at most `limit` rows, of `min_e2e_ns <= e2e < max_e2e_ns`.

        The pages that the cursors lead to have each row stored at the start exactly once. A row amended meanwhile may move.
        """
        if order not in get_args(Order):
            raise StoreInputError(f"order {order!r} is unknown; use one of {', '.join(_SORT)}")
        if not 1 <= limit <= MAX_PAGE:
            raise StoreInputError(f"limit {limit} is out of range; use 1 to {MAX_PAGE}")
        sort = _SORT[order]
        condition = where(window, filters)
        condition.add_length(min_e2e_ns, max_e2e_ns)
        if cursor:
            last = decode(cursor, order)
            condition.add(
                f"({sort}, trace_id, request_id) < ({{at:UInt64}}, toFixedString(unhex({{at_trace:String}}), 16),"
                " toFixedString(unhex({at_request:String}), 8))",
                at=last.value, at_trace=last.trace_id, at_request=last.request_id,
            )  # fmt: skip
        # First the keys of the page, then the whole rows of those keys. Reading in the key's order is faster only where nearly every
        # row matches: a rare value would be searched for block by block.
        in_order = int(not any((filters or {}).values()) and min_e2e_ns <= 0 and max_e2e_ns is None)
        stored = self._connection.rows(
            f"SELECT {_ROW} FROM requests WHERE (entry_start_ns, trace_id, request_id) IN"
            f" (SELECT entry_start_ns, trace_id, request_id FROM requests FINAL WHERE {condition.sql}"
            f" ORDER BY {sort} DESC, trace_id DESC, request_id DESC LIMIT {limit + 1})"
            f" ORDER BY version DESC LIMIT 1 BY entry_start_ns, trace_id, request_id SETTINGS optimize_read_in_order = {in_order}",
            condition.parameters,
        )
        ordered = sorted(
            map(arrow_columns.request, stored),
            key=lambda row: (getattr(row, sort), row.trace_id, row.request_id),
            reverse=True,
        )
        rows = ordered[:limit]
        if len(stored) <= limit:
            return RequestPage(rows, None)
        end = rows[-1]
        return RequestPage(rows, encode(Position(order, getattr(end, sort), end.trace_id, end.request_id)))

    def request_rows(self, trace_id: str) -> list[LedgerRow]:
        """The requests of a trace (32 hex digits), by start; empty where there is none."""
        parameters = {"trace": _hex(trace_id)}
        # The newest copies are chosen here: a nested query of as many columns takes half as long again to plan.
        stored = self._connection.rows(
            f"SELECT version, withdrawn, {_READ_OF_ONE} FROM requests PREWHERE {_OF_TRACE}{self._connection.settings_clause(_ONE_TRACE)}",
            parameters,
        )
        newest: dict[tuple[int, str], tuple[bool, LedgerRow]] = {}
        for _, withdrawn, *columns in sorted(stored, key=lambda columns: int(columns[0])):
            read = dict(zip(_OF_ONE, columns, strict=True))
            read |= {"end_ns": read["start_ns"] + read["e2e_ns"], "trace_id": bytes.fromhex(trace_id)}
            row = arrow_columns.request([read[name] for name in arrow_columns.REQUEST_COLUMNS])
            newest[row.entry_start_ns, row.request_id] = bool(withdrawn), row
        rows = [row for withdrawn, row in newest.values() if not withdrawn]
        return sorted(rows, key=lambda row: (row.start_ns, row.request_id))

    def trace(self, trace_id: str) -> list[Span]:
        """The ROW_SPANS earliest spans of a trace (32 hex digits), by start; empty where there is none."""
        name = _hex(trace_id).lower()
        return self.spans_of([name], ROW_SPANS).get(name, [])

    def traced(self, trace_id: str) -> tuple[list[Span], list[LedgerRow]]:
        """`trace` and `request_rows`, read at the same time."""
        rows = self._connection.submit_query(self.request_rows, trace_id)
        return self.trace(trace_id), rows.result()

    def spans_of(self, trace_ids: Sequence[str], most: int | None = None) -> dict[str, list[Span]]:
        """The spans of several traces, by trace id. A trace without spans is absent.

        With `most`, only that many of each trace's earliest spans, which bounds the cost of a trace.
        """
        if len(trace_ids) > MAX_TRACES:
            raise StoreInputError(f"{len(trace_ids)} traces are too many for one query; ask for at most {MAX_TRACES}")
        if not trace_ids:
            return {}
        stored = self._stored_spans([_hex(each) for each in trace_ids], most)
        longest: dict[tuple[bytes, bytes], Span] = {}
        for span in map(arrow_columns.span, stored):
            other = longest.get((span.trace_id, span.span_id))
            if other is None or span.end_ns - span.start_ns > other.end_ns - other.start_ns:
                longest[span.trace_id, span.span_id] = span
        traces: dict[str, list[Span]] = {}
        for span in sorted(longest.values(), key=lambda span: (span.start_ns, span.span_id)):
            spans = traces.setdefault(span.trace_id.hex(), [])
            if most is None or len(spans) < most:
                spans.append(span)
        return traces

    def _stored_spans(self, trace_ids: Sequence[str], most: int | None) -> Sequence[Any]:
        """Rows of SPAN_COLUMNS, in no order. With `most`, the earliest of each trace, twice as many: a span sent twice is there twice."""
        if len(trace_ids) == 1:
            parameters: dict[str, object] = {"trace": trace_ids[0]}
            sql = f"SELECT {_SPAN} FROM spans PREWHERE {_OF_TRACE}"
            limit = "" if most is None else f" LIMIT {2 * most + 1}"
            stored = self._connection.rows(f"{sql}{limit}{self._connection.settings_clause(_ONE_TRACE)}", parameters)
            if (
                most is None or len(stored) <= 2 * most
            ):  # nearly always: sorting by the store would cost a fifth of the query
                return stored
        else:
            sql, parameters = f"SELECT {_SPAN} FROM spans WHERE {_IN_TRACES}", {"traces": trace_ids}
        if most is not None:  # in the table's order, so that no more than these are in memory
            sql += f" ORDER BY trace_id, start_ns, span_id LIMIT {2 * most} BY trace_id"
        return self._connection.rows(sql, parameters)

    def span_counts(self, trace_ids: Sequence[bytes]) -> dict[bytes, int]:
        """The number of spans of each of these traces (raw ids). A trace without spans is absent."""
        rows = self._connection.rows(
            f"SELECT trace_id, uniqExact(span_id) FROM spans WHERE {_IN_TRACES} GROUP BY trace_id",
            {"traces": [trace_id.hex() for trace_id in trace_ids]},
        )
        return {bytes(trace_id): int(count) for trace_id, count in rows}

    def failures(self, window: Window, filters: Filters | None = None) -> list[Failure]:
        """Failed requests by status, reason and stage, the most frequent first, at most MAX_REASONS kinds; empty where none failed."""
        condition = where(window, filters)
        rows = self._connection.rows(
            "SELECT toString(status) AS status, toString(error_type) AS error_type, http_status, toString(error_stage) AS error_stage,"
            " count() AS n, quantileExactInclusive(0.5)(e2e_ns), max(end_ns)"
            f" FROM requests FINAL WHERE {condition.sql} AND {FAILED} GROUP BY status, error_type, http_status, error_stage"
            f" ORDER BY n DESC, status, error_type, http_status, error_stage LIMIT {MAX_REASONS}",
            condition.parameters,
        )
        return [
            Failure(status, error_type, http_status, stage, requests, p50_ns / 1e6, newest_ns)
            for status, error_type, http_status, stage, requests, p50_ns, newest_ns in rows
        ]


def _hex(trace_id: str) -> str:
    try:
        if len(bytes.fromhex(trace_id)) == 16:
            return trace_id
    except ValueError:
        pass
    raise StoreInputError(f"trace id {trace_id[:40]!r} is not 32 hexadecimal digits")
