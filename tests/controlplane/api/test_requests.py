"""`GET /api/v1/requests`: the ledger's rows."""

from typing import Any

from django.test import Client

from inference.contract.stages import STAGES
from tests.support.web.api import get
from tests.support.web.served import Filled


def everything(client: Client, **parameters: Any) -> list[dict[str, Any]]:
    rows, cursor = [], None
    while True:
        page = get(client, "requests", **parameters, **({"cursor": cursor} if cursor else {}))
        rows += page["rows"]
        cursor = page["next_cursor"]
        if cursor is None:
            return rows


def test_every_row_closes_in_whole_nanoseconds(caller: Client, served: Filled) -> None:
    rows = get(caller, "requests", **served.range, limit=1000)["rows"]
    assert len(rows) == len(served.rows)
    for row in rows:
        assert set(row["stages"]) == set(STAGES)
        assert sum(row["stages"].values()) + row["unattributed_ns"] == row["e2e_ns"] == row["end_ns"] - row["start_ns"]


def test_following_cursors_gives_every_row_once(caller: Client, served: Filled) -> None:
    rows = everything(caller, **served.range, limit=70)
    assert sorted(row["request_id"] for row in rows) == sorted(row.request_id for row in served.rows)


def test_filters_apply(caller: Client, served: Filled) -> None:
    rows = everything(caller, **served.range, model="chat-large", cache="hit", limit=1000)
    assert len(rows) == len(served.of(model="chat-large", cache_outcome="hit")) > 0
