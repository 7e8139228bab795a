"""A request is found by the attributes of all its spans, written as text."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.telemetry.core.spans import INTERNAL, SERVER, AttrValue, Span
from controlplane.telemetry.ledger import attribute_index
from controlplane.telemetry.ledger.attribute_index import attribute_hash, index_of, is_label, written
from controlplane.telemetry.ledger.close import close


def span(number: int = 1, parent: bytes = b"", **attributes: AttrValue) -> Span:
    kind = INTERNAL if parent else SERVER
    return Span(
        bytes(16), bytes([number] * 8), parent, "work", kind, 10**18, 10**18 + 1000, 0, "app", "", dict(attributes)
    )


def found(*spans: Span) -> set[int]:
    """All hashes by which a request of these spans is found."""
    labels, others = index_of(spans)
    return {*labels, *others}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("gold", "gold"),
        ("", ""),
        (42, "42"),
        (-1, "-1"),
        (True, "true"),
        (False, "false"),
        ("a=b", "a=b"),
        ("x" * 256, "x" * 256),
        ("é\ud800", "é\ud800"),
    ],
)
def test_a_value_is_found_by_its_text(value: AttrValue, text: str) -> None:
    assert found(span(user=value)) == {attribute_hash("user", text)}


def test_of_a_list_each_element_is_found() -> None:
    assert found(span(reasons=("stop", "length", ("deep",)))) == {
        attribute_hash("reasons", "stop"),
        attribute_hash("reasons", "length"),
    }


@pytest.mark.parametrize("attributes", [{"share": 0.5}, {"weir.ttft_ns": 5}, {"prompt": "x" * 257}])
def test_what_nobody_asks_for_exactly_is_left_out(attributes: dict[str, AttrValue]) -> None:
    assert found(span(**attributes)) == set()


def test_a_request_has_those_of_all_its_spans_once_and_in_order() -> None:
    [row] = close([span(1, user="olga", region="eu"), span(2, bytes([1] * 8), region="eu", shard=3)])
    assert row.label_index == tuple(
        sorted([attribute_hash("user", "olga"), attribute_hash("region", "eu"), attribute_hash("shard", "3")])
    )
    [row] = close([span(1, **{"user.id": "olga", "order": 12345}), span(2, bytes([1] * 8), order=12345)])
    assert row.label_index == ()
    assert row.attribute_index == tuple(sorted([attribute_hash("user.id", "olga"), attribute_hash("order", "12345")]))


def test_they_are_bounded() -> None:
    many = [span(1, **{f"key{number}": number for number in range(2_000)})]
    assert len(found(*many)) == 1_000


def test_the_hashes_that_are_kept_are_bounded_by_value_and_by_key(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[str, dict[str | int, int]] = {}
    monkeypatch.setattr(attribute_index, "_known", kept)
    for number in range(4_097):
        attribute_index.index_of([span(1, user=number)])
        assert len(kept["user"]) == number % 4_096 + 1
    for number in range(1_001):
        attribute_index.index_of([span(1, **{f"key{number}": 1})])
        assert len(kept) == (number + 1) % 1_000 + 1


def test_rows_that_differ_in_nothing_else_are_equal() -> None:
    [row] = close([span(user="olga")])
    assert replace(row, label_index=(), attribute_index=()) == row


@pytest.mark.parametrize(
    ("key", "value", "shared"),
    [
        ("weir.tier", "gold", True),
        ("weir.tier", "", True),
        ("gen_ai.request.stream", True, True),
        ("http.response.status_code", 200, True),
        ("offset", -999, True),
        ("weir.replica", "10.244.3.17:8001", True),
        ("gen_ai.request.model", "llama-3-70b", True),
        ("url.path", "/v1/chat/completions", True),
        ("note", "x" * 64, True),
        ("note", "1234 1234 1234 1234", True),
        ("user.id", "olga", False),
        ("session_id", 7, False),
        ("gen_ai.usage.input_tokens", 1000, False),
        ("offset", -1000, False),
        ("order", "order-20418", False),
        ("call", "550e8400-e29b-41d4-a716-446655440000", False),
        ("digest", "DEADBEEF", False),
        ("note", "x" * 65, False),
        ("note", "1234 1234 1234 1234 1", False),
    ],
)
def test_what_requests_share_is_a_label_and_what_tells_them_apart_is_none(
    key: str, value: AttrValue, shared: bool
) -> None:
    its = (attribute_hash(key, str(written(key, value))),)
    assert index_of([span(**{key: value})]) == ((its, ()) if shared else ((), its))


@given(st.text(max_size=8), st.text() | st.integers() | st.booleans())
def test_who_asks_guesses_like_who_writes(key: str, value: AttrValue) -> None:
    text = written(key, value)
    if text is not None:
        labels, others = index_of([span()._replace(attributes={key: value})])
        assert (labels, others)[not is_label(key, text)] == (attribute_hash(key, text),)
        assert len(labels) + len(others) == 1
