"""`GET /api/v1/requests.csv` and `.parquet`: every row, in files that other tools read."""

import csv
import io

import pyarrow.parquet
import pytest
from django.test import Client

from controlplane.telemetry.query import answers
from tests.support.web.served import Filled


def body(client: Client, path: str, **parameters: str) -> bytes:
    response = client.get(f"/api/v1/{path}", parameters)
    assert response.status_code == 200, response.content
    assert response.streaming
    assert response["Content-Disposition"] == f'attachment; filename="{path}"'
    return response.getvalue()


def test_csv_has_every_row_of_the_range_with_its_stages(caller: Client, served: Filled) -> None:
    read = list(csv.DictReader(io.StringIO(body(caller, "requests.csv", **served.range).decode())))
    assert {row["trace_id"] for row in read} == {row.trace_id for row in served.rows}
    assert len(read) == len(served.rows)
    stages = [name for name in read[0] if name.startswith("stage_")]
    assert all(sum(int(row[name]) for name in (*stages, "unattributed_ns")) == int(row["e2e_ns"]) for row in read)


def test_parquet_keeps_what_the_filters_keep(caller: Client, served: Filled) -> None:
    read = pyarrow.parquet.read_table(
        io.BytesIO(body(caller, "requests.parquet", **served.range, model="chat-small", status="error"))
    )
    wanted = served.of(model="chat-small", status="error")
    assert sorted(read["trace_id"].to_pylist()) == sorted(row.trace_id for row in wanted) != []


def test_bounds_on_e2e_hold_as_in_the_list(caller: Client, served: Filled) -> None:
    middle_ms = sorted(row.e2e_ns for row in served.rows)[len(served.rows) // 2] // 1_000_000
    read = list(
        csv.DictReader(io.StringIO(body(caller, "requests.csv", **served.range, max_ms=str(middle_ms)).decode()))
    )
    wanted = {row.trace_id for row in served.rows if row.e2e_ns < middle_ms * 1_000_000}
    assert {row["trace_id"] for row in read} == wanted != set()
    rest = pyarrow.parquet.read_table(
        io.BytesIO(body(caller, "requests.parquet", **served.range, min_ms=str(middle_ms)))
    )
    assert len(rest) == len(served.rows) - len(read)
    assert caller.get("/api/v1/requests.csv", {**served.range, "min_ms": "slow"}).status_code == 422


def test_too_many_rows_are_refused_and_not_cut_off(
    caller: Client, served: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "MAX_EXPORTED", 10)
    response = caller.get("/api/v1/requests.csv", served.range)
    assert response.status_code == 409
    assert "shorter range" in response.json()["remedy"]
