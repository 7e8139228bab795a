"""Questions as URLs and back."""

from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.telemetry.query.core.errors import BadQuestionError
from controlplane.telemetry.query.core.question import DIMENSIONS, parse

NOW = 1_795_000_000 * 10**9


def test_a_bare_url_asks_for_the_last_fifteen_minutes_at_p95() -> None:
    question = parse({}, NOW)
    assert (question.range.from_text, question.range.to_text, question.quantile, question.filters) == (
        "now-15m",
        "now",
        "p95",
        {},
    )


def test_filters_of_one_dimension_are_alternatives_and_empty_ones_are_none() -> None:
    question = parse({"model": ["a", "b", "a"], "tier": [""], "unrelated": ["x"]}, NOW)
    assert question.filters == {"model": ("a", "b")}


@given(
    st.dictionaries(
        st.sampled_from(DIMENSIONS),
        st.lists(st.text("abcXYZ &=+%#/é.", min_size=1, max_size=9), min_size=1, max_size=4, unique=True),
        max_size=4,
    ),
    st.sampled_from(["p50", "p95", "p99"]),
)
def test_what_a_question_writes_reads_back_as_the_same_question(filters: dict[str, list[str]], quantile: str) -> None:
    question = parse({**filters, "q": [quantile], "from": ["now-1h"]}, NOW)
    assert parse(parse_qs(question.query()), NOW) == question


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"q": ["p42"]}, "q"),
        ({"from": ["now-1h", "now-2h"]}, "from"),
        ({"model": ["x" * 300]}, "model"),
        ({"tier": ["a\nb"]}, "tier"),
        ({"tokens": ["4000"]}, "tokens"),
        ({"attribute": ["tokens > many"]}, "tokens"),
        ({"tokens": [f">{number}" for number in range(11)]}, "tokens"),
        ({"attribute": ["user.id"]}, "attribute"),
        ({"attribute": ["=42"]}, "attribute"),
        ({"attribute": ["user.id="]}, "attribute"),
        ({"attribute": ["a=" + "x" * 257]}, "attribute"),
        ({"attribute": [f"a={number}" for number in range(11)]}, "attribute"),
        ({"tenant": [str(number) for number in range(60)]}, "tenant"),
    ],
)
def test_a_bad_parameter_is_named(parameters: dict[str, list[str]], field: str) -> None:
    with pytest.raises(BadQuestionError) as refused:
        parse(parameters, NOW)
    assert refused.value.field == field
    assert refused.value.remedy


def test_a_bound_of_the_prompts_length_is_read_as_people_write_it() -> None:
    question = parse({"attribute": ["tokens > 4,000", "user.id=42"], "tokens": ["<=8000", ">4000"]}, NOW)
    assert question.filters == {"attribute": ("user.id=42",), "tokens": ("<=8000", ">4000")}
    assert [pair for pair in question.pairs() if pair[0] == "tokens"] == [("tokens", "<=8000"), ("tokens", ">4000")]


def test_attributes_must_all_hold_and_keep_what_is_written_after_the_first_equals_sign() -> None:
    question = parse({"attribute": ["user.id=42", " note=a=b ", "user.id=42", ""]}, NOW)
    assert question.filters == {"attribute": ("user.id=42", "note=a=b")}
    assert parse(parse_qs(question.query()), NOW) == question
    assert question.with_filter("attribute", "note=a=b").filters == {"attribute": ("note=a=b",)}


def test_lifting_a_filter_leaves_the_others() -> None:
    question = parse({"model": ["a"], "tier": ["premium"]}, NOW)
    assert question.with_filter("model").filters == {"tier": ("premium",)}
    assert question.with_filter("tier", "batch").filters == {"model": ("a",), "tier": ("batch",)}
