"""Lists of requests: filtered, ordered, and paged so that no row is lost or doubled while others arrive."""

from operator import attrgetter
from typing import Any

import pytest

from controlplane.telemetry.core.query_types import Filters, Order
from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.store import Store, StoreInputError
from controlplane.telemetry.store.read.cursor import Position, encode
from tests.support.telemetry.embedded_store import UNASKED
from tests.support.telemetry.samples import HOUR, NOON_NS, S, random_rows, row


def follow(store: Store, order: Order, limit: int, between: Any = lambda: None, **given: Any) -> list[LedgerRow]:
    rows: list[LedgerRow] = []
    cursor = None
    while True:
        page = store.requests.page(HOUR, order=order, limit=limit, cursor=cursor, **given)
        rows += page.rows
        cursor = page.next_cursor
        if cursor is None:
            return rows
        between()


def test_pages_follow_each_other_in_order(store: Store) -> None:
    rows = random_rows(101, seed=2) + [row(number + 1000) for number in range(20)]  # twenty that took equally long
    store.writer.insert_requests(rows, version=1)
    orders: dict[Order, str] = {"slowest": "e2e_ns", "newest": "entry_start_ns"}
    for order, key in orders.items():
        expected = sorted(rows, key=attrgetter(key, "trace_id", "request_id"), reverse=True)
        assert follow(store, order, 7) == expected
        assert follow(store, order, 1000) == expected
        assert follow(store, order, len(rows)) == expected


@pytest.mark.parametrize("order", ["slowest", "newest"])
def test_rows_that_arrive_between_pages_neither_hide_nor_double_others(store: Store, order: Order) -> None:
    rows = random_rows(60, seed=4)
    store.writer.insert_requests(rows, version=1)
    arriving = iter(random_rows(1000, seed=5))

    def arrive() -> None:
        later = [next(arriving) for _ in range(5)]
        store.writer.insert_requests(
            [row(int(each.trace_id, 16) + 5000, stages=each.stages) for each in later], version=1
        )

    found = [row.trace_id for row in follow(store, order, 8, arrive)]
    assert len(found) == len(set(found))
    assert {row.trace_id for row in rows} <= set(found)


@pytest.fixture(scope="module")
def stored(shared_store: Store) -> list[LedgerRow]:
    """The rows of `shared_store`."""
    rows = random_rows(80, seed=6)
    shared_store.writer.insert_requests(rows, version=1)
    return rows


@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        ({"model": ("small",)}, lambda row: row.model == "small"),
        ({"model": ("small", "large"), "status": ("error",)}, lambda row: row.status == "error"),
        ({"prompt_bucket": ("0-127", "")}, lambda row: row.prompt_bucket in ("0-127", "")),
        ({"cache": ("hit",)}, lambda row: False),
        ({"cache": ("miss",), "tenant": ("acme",), "tier": ("standard",), "region": ("eu",)}, lambda row: True),
        ({"model": ("'; DROP TABLE requests; --",)}, lambda row: False),
        ({"model": ()}, lambda row: True),
    ],
)
def test_filters_combine_dimensions_and_offer_values(
    shared_store: Store, stored: list[LedgerRow], filters: Filters, kept: Any
) -> None:
    found = shared_store.requests.page(HOUR, filters, limit=1000).rows
    assert {row.trace_id for row in found} == {row.trace_id for row in stored if kept(row)}
    assert shared_store.latency.report(HOUR, filters).requests == len(found)


def test_a_slowness_floor_leaves_out_the_faster(shared_store: Store, stored: list[LedgerRow]) -> None:
    floor = sorted(row.e2e_ns for row in stored)[70]
    assert len(shared_store.requests.page(HOUR, min_e2e_ns=floor).rows) == 10


@pytest.mark.parametrize(
    "cursor",
    [
        "nonsense",
        "é",
        "W10",
        "x" * 5000,
        encode(Position("newest", NOON_NS, "ab" * 16, "cd" * 8)),
        encode(Position("slowest", -1, "ab" * 16, "cd" * 8)),
        encode(Position("slowest", 1, "ab", "cd" * 8)),
        encode(Position("slowest", 1, "zz" * 16, "cd" * 8)),
    ],
)
def test_a_cursor_this_store_did_not_give_is_refused(cursor: str) -> None:
    with pytest.raises(StoreInputError, match="cursor"):
        UNASKED.requests.page(HOUR, cursor=cursor)


def test_an_empty_parameter_is_no_cursor(store: Store) -> None:
    assert store.requests.page(HOUR, cursor="").rows == []


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"filters": {"color": ("red",)}}, "dimension 'color' is unknown; use one of model"),
        ({"filters": {"model": tuple(map(str, range(201)))}}, "at most 200"),
        ({"filters": {"attribute": ("user",)}}, "attribute 'user' is not one; write key=value"),
        ({"order": "fastest"}, "order 'fastest' is unknown; use one of slowest, newest"),
        ({"limit": 0}, "limit 0 is out of range; use 1 to 1000"),
        ({"limit": 1001}, "limit 1001 is out of range"),
    ],
)
def test_bad_arguments_name_themselves_and_the_remedy(given: dict[str, Any], named: str) -> None:
    with pytest.raises(StoreInputError, match=named):
        UNASKED.requests.page(HOUR, **given)


@pytest.mark.parametrize("trace_id", ["", "ab", "zz" * 16, "ab" * 17, "ab" * 15 + "'}"])
def test_a_malformed_trace_id_is_refused(trace_id: str) -> None:
    for read in (UNASKED.requests.trace, UNASKED.requests.request_rows):
        with pytest.raises(StoreInputError, match="32 hexadecimal digits"):
            read(trace_id)


def test_many_traces_are_read_at_once(store: Store) -> None:
    rows = [row(number, entry_start_ns=NOON_NS + number * S) for number in range(1, 3000)]
    assert store.requests.spans_of([row.trace_id for row in rows]) == {}
