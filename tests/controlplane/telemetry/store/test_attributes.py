"""Requests are found by each attribute of their spans and by no other, whichever column holds it and whenever the row was written."""

import random
from dataclasses import replace

import pyarrow as pa
import pytest

from controlplane.telemetry.core.spans import SERVER, AttrValue, Span
from controlplane.telemetry.ledger.attribute_index import index_of, is_label, written
from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.store import Store
from controlplane.telemetry.store.write.arrow_columns import label_columns
from controlplane.telemetry.store.write.keys import key_of
from tests.support.telemetry.samples import HOUR, random_rows, row

Attributes = dict[str, AttrValue]


def having(one: LedgerRow, attributes: Attributes) -> LedgerRow:
    """The row of a request whose only span has these."""
    labels, others = index_of([Span(bytes(16), bytes(8), b"", "work", SERVER, 0, 0, 0, "app", "", attributes)])
    return replace(one, label_index=labels, attribute_index=others)


def random_attributes(source: random.Random) -> Attributes:
    several: list[AttrValue] = [
        True,
        False,
        source.randrange(-3, 3),
        source.randrange(998, 1003),
        source.randrange(2**63),
        source.choice(("gold", "silver", "", "a=b", "olga")),
        f"10.0.0.{source.randrange(3)}:8001",
        f"{source.getrandbits(128):032x}",
        f"order-{source.randrange(10**8)}",
        ("stop", source.randrange(3), source.randrange(10**6)),
        0.5,
    ]
    return {key: source.choice(several) for key in ("tier", "user.id", "shard", "note", "retry", "seen_ns")}


def texts(attributes: Attributes) -> set[str]:
    """By what a request with these is found."""
    return {
        f"{key}={text}"
        for key, value in attributes.items()
        for part in (value if isinstance(value, tuple) else (value,))
        if (text := written(key, part)) is not None
    }


def found(store: Store, *attributes: str) -> set[str]:
    return {one.trace_id for one in store.requests.page(HOUR, {"attribute": attributes}, limit=1000).rows}


def test_requests_are_found_by_each_of_their_attributes_and_by_no_other(store: Store) -> None:
    source = random.Random(11)
    given = [random_attributes(source) for _ in range(150)]
    rows = [having(one, attributes) for one, attributes in zip(random_rows(150, seed=9), given, strict=True)]
    store.writer.insert_requests(rows, version=1)
    every = sorted(set().union(*map(texts, given)))
    kinds = [is_label(*text.split("=", 1)) for text in every]
    assert any(kinds) and not all(kinds)
    for text in source.sample(every, 80):
        have = {one.trace_id for one, attributes in zip(rows, given, strict=True) if text in texts(attributes)}
        assert found(store, text) == have, text
    assert not found(store, "tier=bronze") and not found(store, "user.id=nobody")


def test_several_attributes_must_all_hold(store: Store) -> None:
    rows = [
        having(one, {"user.id": number, "parity": number % 2}) for number, one in enumerate(random_rows(500, seed=9))
    ]
    store.writer.insert_requests(rows, version=1)
    assert found(store, "parity=1", "user.id=77") == {rows[77].trace_id}
    assert not found(store, "parity=0", "user.id=77")
    assert store.latency.report(HOUR, {"attribute": ("parity=0",)}).requests == 250


def test_a_request_that_was_withdrawn_is_not_found_by_what_it_had(store: Store) -> None:
    one = having(row(1), {"user.id": 1, "tier": "gold"})
    store.writer.insert_requests([one], version=1)
    assert found(store, "user.id=1") == found(store, "tier=gold") == {one.trace_id}
    store.writer.withdraw_requests([key_of(one)], version=9)
    assert not found(store, "user.id=1") and not found(store, "tier=gold")


@pytest.mark.parametrize("rows", [[], [()], [(1, 2, 9), (), (8, 2**64 - 1)]])
def test_a_label_is_in_one_column_of_its_row(rows: list[tuple[int, ...]]) -> None:
    for lists in (pa.array(rows, pa.list_(pa.uint64())), pa.array([(5,), *rows], pa.list_(pa.uint64())).slice(1)):
        parted = label_columns(lists)
        for number, column in enumerate(parted.values()):
            assert column.to_pylist() == [[token for token in of if token % len(parted) == number] for of in rows]
