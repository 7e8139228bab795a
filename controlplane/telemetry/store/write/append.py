"""Inserts spans and request rows. A row replaces the row of its identity, so repeating a batch is harmless."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from controlplane.telemetry.core.spans import Span
from controlplane.telemetry.ledger.row import LedgerRow

from ..client import Connection
from ..errors import StoreInputError
from .arrow_columns import request_table, span_table


class Writer(Connection):
    """Each method raises StoreUnavailableError (send the same batch again later) or StoreError."""

    def insert_spans(self, spans: Sequence[Span]) -> None:
        """Append spans. A span replaces one with the same (trace_id, span_id)."""
        if spans:
            with _checked("span"):
                table = span_table(spans)
            self.insert_span_columns(table)

    def insert_requests(self, rows: Sequence[LedgerRow], version: int | Sequence[int]) -> None:
        """Append ledger rows. Of rows with one (trace_id, request_id) the highest version counts.

        `version` is one for all or one for each; it grows with every amendment, as the time of writing in ns does.
        """
        if rows:
            with _checked("request row"):
                table = request_table(rows, version)
            self.insert_request_columns(table)

    def insert_span_columns(self, columns: pa.Table) -> None:
        """Append spans as a table of `arrow_columns.SPAN_SCHEMA`."""
        self.insert_arrow("spans", columns)

    def insert_request_columns(self, columns: pa.Table) -> None:
        """Append request rows as a table of `arrow_columns.REQUEST_SCHEMA`."""
        self.insert_arrow("requests", columns)


@contextmanager
def _checked(what: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, OverflowError) as error:
        raise StoreInputError(
            f"a {what} of this batch does not fit its column: {error}; insert the others without it"
        ) from error
