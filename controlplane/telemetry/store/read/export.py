"""Exports request rows as CSV or Parquet, audits of texts as JSON lines: by batches, in memory that does not grow with the window."""

import io
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

from controlplane.core.spreadsheet import FORMULA, GUARD
from controlplane.telemetry.core.query_types import Filters, Window
from inference.contract.stages import STAGES

from ..client import StorePart
from ..write.arrow_columns import REQUEST_COLUMNS
from .where import where

Format = Literal["csv", "parquet", "jsonl"]
CONTENT_TYPES: dict[Format, str] = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "jsonl": "application/jsonl",
}
BATCH_ROWS = 20_000

_IDS = ("trace_id", "request_id")
COLUMNS = (
    *_IDS,
    *(
        name
        for name in REQUEST_COLUMNS
        if name not in (*_IDS, "critical_path") and not name.startswith(("stage_", "attempt_"))
    ),
    *(f"stage_{stage}" for stage in STAGES),
    "prompt_bucket",
)
"""In this order; times in ns, ids as hex, `stage_NAME` and `unattributed_ns` sum to `e2e_ns`."""
AUDITED = (
    *_IDS, "entry_start_ns", "end_ns", "tenant", "model", "operation", "stream", "status", "http_status", "error_type", "cache_outcome",
    "prompt_hash", "prompt_bytes", "prompt_tokens", "answer_hash", "answer_bytes", "output_tokens", "guard",
)  # fmt: skip
"""What JSON lines have, of requests whose texts are audited alone."""


class Exporter(StorePart):
    """Queries of exports."""

    def parts(
        self,
        window: Window,
        filters: Filters | None = None,
        form: Format = "csv",
        min_e2e_ns: int = 0,
        max_e2e_ns: int | None = None,
    ) -> Iterator[bytes]:
        """All requests of the window by entry time, of `min_e2e_ns <= e2e < max_e2e_ns`, as parts of one file. JSON lines have
        those whose texts are audited alone.

        Each row stored at the start comes exactly once, whatever arrives meanwhile.
        """
        if form == "jsonl":
            return _lines(
                self.batches(window, filters, BATCH_ROWS, min_e2e_ns, max_e2e_ns, AUDITED, "prompt_hash != ''")
            )
        batches = self.batches(window, filters, BATCH_ROWS, min_e2e_ns, max_e2e_ns)
        return _csv(batches) if form == "csv" else _parquet(batches)

    def count(
        self, window: Window, filters: Filters | None = None, min_e2e_ns: int = 0, max_e2e_ns: int | None = None
    ) -> int:
        """How many rows an export would have now."""
        condition = where(window, filters)
        condition.add_length(min_e2e_ns, max_e2e_ns)
        [(count,)] = self._connection.rows(
            f"SELECT count() FROM requests FINAL WHERE {condition.sql}", condition.parameters
        )
        return int(count)

    def batches(
        self,
        window: Window,
        filters: Filters | None = None,
        rows: int = BATCH_ROWS,
        min_e2e_ns: int = 0,
        max_e2e_ns: int | None = None,
        columns: Sequence[str] = COLUMNS,
        only: str = "1",
    ) -> Iterator[pa.Table]:
        """The same as Arrow tables of at most `rows` rows. There is at least one table, so that the columns are known."""
        chosen = ", ".join(f"lower(hex({name})) AS {name}_hex" if name in _IDS else name for name in columns)
        at: tuple[int, str, str] | None = None
        while True:
            condition = where(window, filters)
            condition.add_length(min_e2e_ns, max_e2e_ns)
            condition.add(only)
            if at is not None:
                condition.add(
                    "entry_start_ns >= {at:UInt64} AND (entry_start_ns, trace_id, request_id) >"
                    " ({at:UInt64}, toFixedString(unhex({at_trace:String}), 16), toFixedString(unhex({at_request:String}), 8))",
                    **dict(zip(("at", "at_trace", "at_request"), at, strict=True)),
                )
            batch = self._connection.arrow(
                f"SELECT {chosen} FROM requests FINAL WHERE {condition.sql}"
                f" ORDER BY entry_start_ns, trace_id, request_id LIMIT {rows}",
                condition.parameters,
            ).rename_columns(list(columns))
            if at is None or batch.num_rows:
                yield batch
            if batch.num_rows < rows:
                return
            last = batch.slice(batch.num_rows - 1).to_pylist()[0]
            at = last["entry_start_ns"], last["trace_id"], last["request_id"]


def _lines(tables: Iterable[pa.Table]) -> Iterator[bytes]:
    for table in tables:
        yield "".join(f"{json.dumps(row)}\n" for row in table.to_pylist()).encode()


def _csv(tables: Iterable[pa.Table]) -> Iterator[bytes]:
    for number, table in enumerate(tables):
        file = io.BytesIO()
        pyarrow.csv.write_csv(_as_text(table), file, pyarrow.csv.WriteOptions(include_header=number == 0))
        yield file.getvalue()


def _as_text(table: pa.Table) -> pa.Table:
    """With no cell that a spreadsheet would take for a formula."""
    for at, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_dictionary(field.type):
            cells = table.column(at).cast(pa.string())
            cells = pyarrow.compute.replace_substring_regex(cells, f"({FORMULA})", rf"{GUARD}\1")
            table = table.set_column(at, field.name, cells)
    return table


def _parquet(tables: Iterable[pa.Table]) -> Iterator[bytes]:
    """One row group per table. The sink is emptied after each."""
    sink = _Drained()
    writer: pyarrow.parquet.ParquetWriter | None = None
    for table in tables:
        if writer is None:
            writer = pyarrow.parquet.ParquetWriter(sink, table.schema, compression="zstd")
        writer.write_table(table)
        yield sink.taken()
    if writer is not None:
        writer.close()
    yield sink.taken()


class _Drained(io.RawIOBase):
    """A file that is only written to. It knows its position, and `taken` removes what was written."""

    def __init__(self) -> None:
        super().__init__()
        self._chunks: list[bytes] = []
        self._position = 0

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        chunk = bytes(data)  # type: ignore[call-overload]
        self._chunks.append(chunk)
        self._position += len(chunk)
        return len(chunk)

    def tell(self) -> int:
        return self._position

    def taken(self) -> bytes:
        chunks, self._chunks = self._chunks, []
        return b"".join(chunks)
