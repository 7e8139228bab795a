"""A range beside another one: what `compare` means, and that the parts of a difference add up and are said in words."""

import re

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from controlplane.dashboard.core.comparison import because, by_segment, by_stage, counted, instead, mean_ms, parse
from controlplane.telemetry.core.query_types import Group, LatencyReport, Quantiles, StageFigures, StageShare, Totals
from controlplane.telemetry.query.core.errors import BadQuestionError
from controlplane.telemetry.query.core.question import parse as parse_question
from inference.contract.stages import STAGES
from tests.support.web.html import page_of
from tests.support.web.served import Filled

NOW = 1_795_183_500 * 10**9
MEANS = st.dictionaries(st.sampled_from(STAGES), st.floats(0.001, 1e5), min_size=1)


def report(means: dict[str, float], requests: int = 100) -> LatencyReport:
    whole = sum(means.values())
    stages = {name: StageFigures(ms, ms, ms, ms, ms / whole, 0.0) for name, ms in means.items()}
    return LatencyReport(requests, 0, Quantiles(whole, whole, whole), {}, {}, stages, None)


def group(mean: float, requests: int) -> Group:
    return Group(requests, 0, Quantiles(mean, mean, mean), {"model": StageShare(mean, 1.0, 0.0)})


GROUPS = st.dictionaries(st.sampled_from("abcd"), st.builds(group, st.floats(1, 1e4), st.integers(1, 1000)), min_size=1)


@pytest.mark.parametrize(
    ("compare", "from_text", "to_text"),
    [
        ("previous", "now-15m-15m", "now-15m"),
        ("yesterday", "now-15m-1d", "now-1d"),
        ("last-week", "now-15m-7d", "now-7d"),
        ("2026-11-20T13:00:00Z", "2026-11-20T13:00:00Z", "2026-11-20T13:15:00Z"),
    ],
)
def test_a_time_to_compare_with_is_as_long_and_reads_back_from_its_url(
    compare: str, from_text: str, to_text: str
) -> None:
    question = parse_question({"model": ["chat-small"]}, NOW)
    other = parse({"compare": [compare]}, question, NOW)
    assert other is not None
    assert (other.question.range.from_text, other.question.range.to_text) == (from_text, to_text)
    assert parse_question(dict_of(other.question.pairs()), NOW) == other.question
    assert question.range.window.from_ns - other.question.range.window.from_ns == other.later_ns


def test_another_slice_is_of_the_same_time() -> None:
    question = parse_question({"model": ["chat-small"]}, NOW)
    other = parse({"compare": ["model=chat-large"]}, question, NOW)
    assert other is not None
    assert other.question == question.with_filter("model", "chat-large")


@pytest.mark.parametrize("text", ["tomorrow", "colour=red", "model=", "model"])
def test_what_nothing_can_be_compared_with_is_refused(text: str) -> None:
    with pytest.raises(BadQuestionError, match="nothing to compare with"):
        parse({"compare": [text]}, parse_question({}, NOW), NOW)


@given(MEANS, MEANS)
def test_changes_of_stages_add_up_to_that_of_the_mean(now: dict[str, float], then: dict[str, float]) -> None:
    sides = report(now), report(then)
    assert sum(part.change_ms for part in by_stage(*sides)) == pytest.approx(
        mean_ms(sides[0]) - mean_ms(sides[1]), abs=1e-6
    )


@given(GROUPS, GROUPS)
def test_changes_of_segments_add_up_to_that_of_the_mean(now: dict[str, Group], then: dict[str, Group]) -> None:
    def mean(side: dict[str, Group]) -> float:
        return sum(each.answered * mean_ms(each) for each in side.values()) / sum(e.answered for e in side.values())

    segments = by_segment(now, then)
    assert sum(segment.change_ms for segment in segments) == pytest.approx(mean(now) - mean(then), abs=1e-6)
    assert all(segment.own_ms == 0 for segment in segments if None in (segment.now_ms, segment.then_ms))


def test_the_words_name_the_stage_and_whether_requests_or_their_mix_changed() -> None:
    now, then = report({"queue": 90.0, "model": 110.0}), report({"queue": 10.0, "model": 100.0})
    slower = by_segment({"a": group(310, 50), "b": group(90, 50)}, {"a": group(130, 50), "b": group(90, 50)})
    said = because(now, then, slower, "pool").replace("\u202f", " ")
    assert "90.0 ms more on average, 80.0 ms of it in queue." in said
    assert "pool a, whose own requests changed" in said
    mixed = by_segment({"a": group(300, 90), "b": group(20, 10)}, {"a": group(300, 30), "b": group(20, 70)})
    said = because(now, then, mixed, "pool").replace("\u202f", " ")
    assert "90 % instead of 30 % of the requests are of pool a" in said or "pool b" in said
    assert because(then, then, slower, "pool") == ""
    assert "about the same as" in instead(102.0, 100.0, "a day earlier", "p95")


def test_a_screen_is_compared_in_words_stages_and_segments(reader: Client, served: Filled) -> None:
    shown = page_of(reader, "/latency", **served.range, model="chat-large", compare="model=chat-small", by="tenant")
    large, small = served.of(model="chat-large", status="ok"), served.of(model="chat-small", status="ok")
    means = [sum(row.e2e_ns for row in side) / len(side) for side in (large, small)]
    assert f"{'more' if means[0] > means[1] else 'less'} on average" in shown
    assert "Compared with model chat-small" in shown
    assert re.search(r'aria-current="true" title="No comparison">model=chat-small', shown)
    assert all(
        "compare=model%3Dchat-small" in query for query in re.findall(r'href="/latency\?([^"]*)" data-go>p9[59]', shown)
    )


def test_a_time_of_which_nothing_is_known_is_not_compared(reader: Client, served: Filled) -> None:
    shown = page_of(reader, "/latency", **served.range, compare="last-week")
    assert "Of a week earlier no answered request is known" in shown
    assert "more than" not in shown


@pytest.mark.parametrize("path", ["/", "/requests", "/map"])
def test_other_screens_say_in_words_what_the_time_before_counted(reader: Client, served: Filled, path: str) -> None:
    middle_ns = (served.from_ns + served.to_ns) // 2
    now = [row for row in served.rows if row.entry_start_ns >= middle_ns]
    then = [row for row in served.rows if middle_ns > row.entry_start_ns >= 2 * middle_ns - served.to_ns]
    asked_for = {"from": str(middle_ns), "to": str(served.to_ns), "compare": "previous"}
    shown = re.sub(r"\s+", " ", page_of(reader, path, **asked_for))
    [(count, words)] = re.findall(r'<p class="sentence">(\d+) requests, ([^<]*)\(\d+\)\.</p>', shown)
    assert int(count) == len(now) and f"({len(then)})." in shown
    about = abs(len(now) - len(then)) <= 0.05 * len(then)
    assert ("about the same as" if about else "more" if len(now) > len(then) else "fewer") in words
    assert re.search(r"<p class=\"\">p95 is [^<]*the time just before", shown)
    assert re.search(r'aria-current="true" title="No comparison">period before', shown)
    beside = page_of(reader, path, **served.range, compare="last-week")
    assert "Of a week earlier no request is known" in beside and "instead of" not in beside


def test_counts_of_a_time_that_is_partly_known_are_not_compared() -> None:
    now, then = (Totals(count, errors, Quantiles(ms, ms, ms), 1) for count, errors, ms in ((120, 6, 50), (100, 1, 10)))
    said = [each.replace("\u202f", " ") for each in counted(now, then, "a day earlier", "p95", whole=True)]
    assert said[:2] == ["120 requests, 20 (20 %) more than a day earlier (100).", "5.0 % failed, instead of 1.0 %."]
    assert said[2].startswith("p95 is 50.0 ms, 40.0 ms (400 %) more")
    assert counted(now, then, "a day earlier", "p95", whole=False)[0] == "120 requests."
    [nothing] = counted(now, Totals(0, 0, None, None), "a day earlier", "p95", whole=True)
    assert "nothing to compare" in nothing


def dict_of(pairs: list[tuple[str, str]]) -> dict[str, list[str]]:
    return {name: [value for key, value in pairs if key == name] for name, _ in pairs}
