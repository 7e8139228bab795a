"""The time range grammar of URLs."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.query.core.errors import BadQuestionError
from controlplane.telemetry.query.core.timerange import MAX_NS, SECOND_NS, STEPS_S, instant_ns, parse, step_ns

NOW = 1_795_000_000 * SECOND_NS


def test_now_minus_fifteen_minutes_is_nine_hundred_seconds_ago_and_live() -> None:
    found = parse("now-15m", "now", NOW)
    assert found.window == Window(NOW - 900 * SECOND_NS, NOW)
    assert found.live
    assert not parse("now-1h", "now-5m", NOW).live


@pytest.mark.parametrize(
    ("text", "expected_ns"),
    [
        ("now", NOW),
        ("now-2d", NOW - 172_800 * SECOND_NS),
        ("now-1w", NOW - 604_800 * SECOND_NS),
        ("2026-11-20T14:05:00Z", 1_795_183_500 * SECOND_NS),
        ("2026-11-20T15:05:00+01:00", 1_795_183_500 * SECOND_NS),
        ("2026-11-20T14:05", 1_795_183_500 * SECOND_NS),
        ("2026-11-20T14:05:00.000001Z", 1_795_183_500 * SECOND_NS + 1000),
        ("2026-11-20", 1_795_132_800 * SECOND_NS),
        ("1795183500", 1_795_183_500 * SECOND_NS),
        ("1795183500.25", 1_795_183_500 * SECOND_NS + SECOND_NS // 4),
        ("1795183500250", 1_795_183_500 * SECOND_NS + SECOND_NS // 4),
        ("1795183500250000000", 1_795_183_500 * SECOND_NS + SECOND_NS // 4),
    ],
)
def test_each_way_of_writing_an_instant_means_what_it_says(text: str, expected_ns: int) -> None:
    assert instant_ns("from", text, NOW) == expected_ns


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "now-",
        "now-15",
        "now-15x",
        "now+5m",
        "12345",
        "2026-13-01",
        "now-15m ago",
        "1e9",
        "１７９５１８３５００",
    ],
)
def test_what_is_not_a_time_is_refused_with_the_field_the_value_and_the_remedy(text: str) -> None:
    with pytest.raises(BadQuestionError, match="now-15m") as refused:
        instant_ns("to", text, NOW)
    assert (refused.value.field, refused.value.value) == ("to", text)


@pytest.mark.parametrize(
    ("start", "end"), [("now", "now-15m"), ("now", "now"), ("now-100d", "now"), ("2026-01-01", "2026-11-01")]
)
def test_a_range_that_is_backwards_empty_or_too_long_is_refused(start: str, end: str) -> None:
    with pytest.raises(BadQuestionError) as refused:
        parse(start, end, NOW)
    assert refused.value.field == "from"


@given(st.text(max_size=40))
def test_no_text_whatever_raises_anything_but_a_bad_question(text: str) -> None:
    try:
        assert isinstance(instant_ns("from", text, NOW), int)
    except BadQuestionError as refused:
        assert refused.remedy


@given(st.integers(SECOND_NS, MAX_NS))
def test_a_step_is_round_and_gives_a_readable_number_of_points(length_ns: int) -> None:
    step = step_ns(Window(NOW - length_ns, NOW))
    assert step // SECOND_NS in STEPS_S
    assert length_ns / step <= 93


def test_steps_divide_each_other_or_a_day_so_that_bars_fall_on_round_times() -> None:
    assert all(86_400 % step == 0 for step in STEPS_S)
    assert all(earlier < later for earlier, later in pairwise(STEPS_S))
