"""What a request is found by: the attributes of all its spans, as people write them."""

from dataclasses import replace

import pytest

from controlplane.telemetry.ledger.close import close
from controlplane.telemetry.ledger.tokens import LONGEST_TEXT, MAX_TOKENS, token, tokens
from controlplane.telemetry.spans import INTERNAL, SERVER, AttrValue, Span


def span(number: int = 1, parent: bytes = b"", **attributes: AttrValue) -> Span:
    kind = INTERNAL if parent else SERVER
    return Span(
        bytes(16), bytes([number] * 8), parent, "work", kind, 10**18, 10**18 + 1000, 0, "app", "", dict(attributes)
    )


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
        ("é\ud800", "é\ud800"),
    ],
)
def test_a_value_is_found_by_its_text(value: AttrValue, text: str) -> None:
    assert tokens([span(user=value)]) == (token("user", text),)


def test_true_is_not_one_and_neither_is_taken_for_the_other() -> None:
    assert tokens([span(user=1)]) != tokens([span(user=True)])
    assert tokens([span(user=True)]) != tokens([span(user=1)])


def test_of_a_list_each_element_is_found() -> None:
    assert set(tokens([span(reasons=("stop", "length", ("deep",)))])) == {
        token("reasons", "stop"),
        token("reasons", "length"),
    }


@pytest.mark.parametrize("attributes", [{"share": 0.5}, {"weir.ttft_ns": 5}, {"prompt": "x" * (LONGEST_TEXT + 1)}])
def test_what_nobody_asks_for_exactly_is_left_out(attributes: dict[str, AttrValue]) -> None:
    assert tokens([span(**attributes)]) == ()


def test_a_request_has_those_of_all_its_spans_once_and_in_order() -> None:
    [row] = close([span(1, user="olga", region="eu"), span(2, bytes([1] * 8), region="eu", shard=3)])
    assert row.attributes == tuple(sorted([token("user", "olga"), token("region", "eu"), token("shard", "3")]))


def test_they_are_bounded() -> None:
    many = [span(1, **{f"key{number}": number for number in range(2 * MAX_TOKENS)})]
    assert len(tokens(many)) == MAX_TOKENS


def test_rows_that_differ_in_nothing_else_are_equal() -> None:
    [row] = close([span(user="olga")])
    assert replace(row, attributes=()) == row
