"""Request rows leave whole, once, and in files that other tools read."""

import csv
import io

import pyarrow.parquet
import pytest

from controlplane.telemetry.store import Store
from controlplane.telemetry.store.read.export import COLUMNS
from inference.contract.stages import STAGES
from tests.support.telemetry.samples import HOUR, NOON_NS, random_rows, row

ROWS = sorted(random_rows(120, seed=21) + [row(800 + n, entry_start_ns=NOON_NS + 5) for n in range(30)],
              key=lambda row: (row.entry_start_ns, row.trace_id))  # fmt: skip


def test_csv_holds_every_row_once_in_order_and_closes(store: Store) -> None:
    store.writer.insert_requests([*ROWS, row(999, tenant='a "quoted", name\nof two lines')], version=1)
    text = b"".join(store.exports.parts(HOUR)).decode()
    read = list(csv.DictReader(io.StringIO(text)))
    assert tuple(read[0]) == COLUMNS
    assert sorted(each["trace_id"] for each in read) == sorted([row.trace_id for row in ROWS] + [f"{999:032x}"])
    assert [int(each["entry_start_ns"]) for each in read] == sorted(int(each["entry_start_ns"]) for each in read)
    for each in read:
        parts = sum(int(each[f"stage_{stage}"]) for stage in STAGES) + int(each["unattributed_ns"])
        assert parts == int(each["e2e_ns"]) == int(each["end_ns"]) - int(each["start_ns"])
    assert 'a "quoted", name\nof two lines' in {each["tenant"] for each in read}


def test_what_clients_named_is_no_formula_of_a_spreadsheet(store: Store) -> None:
    names = ['=HYPERLINK("http://evil.example")', "+1", "-1", "@sum", "\tx", "\rx", "a=1", "'", ""]
    rows = [row(number, tenant=name, model=name) for number, name in enumerate(names)]
    store.writer.insert_requests(rows, version=1)
    read = list(csv.DictReader(io.StringIO(b"".join(store.exports.parts(HOUR)).decode(), newline="")))
    for column in ("tenant", "model"):
        assert [each[column] for each in read] == [f"'{name}" for name in names[:6]] + names[6:]
    assert {each["entry_start_ns"] for each in read} == {str(each.entry_start_ns) for each in rows}
    table = pyarrow.parquet.read_table(io.BytesIO(b"".join(store.exports.parts(HOUR, form="parquet"))))
    assert table["tenant"].to_pylist() == names, "no spreadsheet reads it"


def test_parquet_holds_types_and_missing_values(store: Store) -> None:
    store.writer.insert_requests(ROWS, version=1)
    pieces = list(store.exports.parts(HOUR, {"model": ("small",)}, "parquet"))
    table = pyarrow.parquet.read_table(io.BytesIO(b"".join(pieces)))
    wanted = [row for row in ROWS if row.model == "small"]
    assert table["trace_id"].to_pylist() == [row.trace_id for row in wanted]
    assert table["ttft_ns"].to_pylist() == [row.ttft_ns for row in wanted]
    assert table["stream"].to_pylist() == [True] * len(wanted)
    assert table["prompt_bucket"].to_pylist() == [row.prompt_bucket for row in wanted]


@pytest.mark.parametrize(("rows", "count"), [(1, 10), (7, 60), (30, 60), (150, 150), (1000, 150)])
def test_batches_follow_each_other_without_loss_even_where_requests_entered_at_once(
    store: Store, rows: int, count: int
) -> None:
    written = ROWS[:count]  # thirty of which entered at once
    store.writer.insert_requests(written, version=1)
    late = iter(range(2000, 3000))
    found = []
    for table in store.exports.batches(HOUR, rows=rows):
        assert table.num_rows <= rows
        found += table["trace_id"].to_pylist()
        store.writer.insert_requests(
            [row(next(late), entry_start_ns=NOON_NS + 1)], version=1
        )  # behind what was handed out
    assert [trace for trace in found if int(trace, 16) < 2000] == [row.trace_id for row in written]
    assert len(found) == len(set(found))


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_an_empty_window_is_a_file_with_columns_and_no_rows(store: Store, form: str) -> None:
    data = b"".join(store.exports.parts(HOUR, form=form))  # type: ignore[arg-type]
    if form == "csv":
        assert data.decode().replace('"', "").strip().split(",") == list(COLUMNS)
    else:
        table = pyarrow.parquet.read_table(io.BytesIO(data))
        assert (table.num_rows, tuple(table.column_names)) == (0, COLUMNS)
