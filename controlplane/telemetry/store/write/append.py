"""Appends to the store, column by column. Everything written replaces what has its identity: repeating a batch is harmless."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from controlplane.telemetry.core.spans import Span
from controlplane.telemetry.ledger.row import LedgerRow

from ..client import Connection
from ..errors import StoreInputError
from .arrow_columns import request_table, span_table


class Writer(Connection):
    """Inserts. Each raises StoreUnavailableError (send the same batch again later) or StoreError (it will never be taken)."""

    def insert_spans(self, spans: Sequence[Span]) -> None:
        """Append spans; one with a (trace_id, span_id) that is there replaces it."""
        if spans:
            with _checked("span"):
                table = span_table(spans)
            self.insert_span_columns(table)

    def insert_requests(self, rows: Sequence[LedgerRow], version: int | Sequence[int]) -> None:
        """Append ledger rows; of rows with the same (trace_id, request_id) the one with the highest version counts.

        `version`, one for all or one for each, grows with every amendment: the time of writing in ns serves.
        """
        if rows:
            with _checked("request row"):
                table = request_table(rows, version)
            self.insert_request_columns(table)

    def insert_span_columns(self, columns: pa.Table) -> None:
        """Append spans that are columns already, in the shape of `columns.SPAN_SCHEMA`: the path for volume."""
        self.insert_arrow("spans", columns)

    def insert_request_columns(self, columns: pa.Table) -> None:
        """Append request rows that are columns already, in the shape of `columns.REQUEST_SCHEMA`."""
        self.insert_arrow("requests", columns)


@contextmanager
def _checked(what: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, OverflowError) as error:
        raise StoreInputError(
            f"a {what} of this batch does not fit its column: {error}; insert the others without it"
        ) from error
