"""Adds up what gateways count, whichever of them restart, and compares it with the ledger."""

import pytest

from controlplane.slo.core.gaps import MAX_SHOWN, Ended, Gap, Process, document, missing
from controlplane.slo.core.period import SECOND_NS, Span

KEY = ("chat", "standard")


def process(ended: int, started_s: float = 0.0, heard_s: float = 1e9) -> Process:
    return Process(started_s, heard_s, {KEY: ended})


def test_what_processes_served_before_the_first_look_does_not_count() -> None:
    ended = Ended()
    ended.look(100, {"a": process(50)})
    began_s, base = ended.until(100)
    ended.look(105, {"a": process(57)})
    ended.look(110, {"a": process(58), "b": process(4, started_s=107)})
    assert (began_s, ended.since(100, base)) == (100, {KEY: 12})
    assert ended.until(107)[0] == 105


@pytest.mark.parametrize(
    ("later", "known"),
    [
        ({"b": process(4, started_s=107)}, True),
        ({"b": process(4, started_s=84), "a": process(57)}, False),
        ({"a": process(57, heard_s=90)}, False),
        ({}, False),
    ],
    ids=["it restarted", "one that nobody heard before", "it is silent", "none answers"],
)
def test_where_counts_were_lost_the_growth_is_not_known(later: dict[str, Process], known: bool) -> None:
    ended = Ended()
    ended.look(100, {"a": process(50, heard_s=100)})
    _, base = ended.until(100)
    ended.look(110, later)
    assert ended.since(101, base) == ({KEY: 4} if known else None)
    assert ended.since(111, base) is not None


@pytest.mark.parametrize(
    ("heard_s", "started_s", "lost"),
    [(105, 0, False), (105, 102, False), (140, 134, False), (140, 0, True), (140, 102, True)],
    ids=["who looks began", "both began", "it began", "it was silent", "it began and was silent"],
)
def test_a_gateway_that_could_not_be_heard_yet_was_not_silent(heard_s: int, started_s: float, lost: bool) -> None:
    ended = Ended()
    for at_s in range(100, heard_s, 5):
        ended.look(at_s, {})
    for at_s in range(heard_s, heard_s + 30, 5):
        ended.look(at_s, {"a": process(at_s, started_s=started_s, heard_s=at_s)})
    assert ended.was_lost(100, heard_s + 25) == lost
    assert (ended.since(100, {}) is None) == lost


def test_what_a_gateway_has_counted_while_it_was_silent_is_of_no_time() -> None:
    ended = Ended()
    for at_s, number, heard_s in ((100, 50, 100), (110, 55, 110), (130, 55, 110), (140, 90, 140)):
        ended.look(at_s, {"a": process(number, heard_s=heard_s)})
    assert ended.until(140)[1] == {KEY: 5}
    assert [ended.was_lost(from_s, to_s) for from_s, to_s in ((100, 110), (110, 130), (120, 140), (140, 140))] == [
        False, True, True, False,
    ]  # fmt: skip
    ended.look(150, {"a": process(94, heard_s=150), "new": process(0, started_s=20)})
    assert ended.since(*ended.until(140)) == {KEY: 4}


def test_the_looks_of_two_minutes_are_remembered() -> None:
    ended = Ended()
    for at_s in range(0, 1_000, 50):
        ended.look(at_s, {"a": process(at_s)})
    assert ended.until(0) == (800, {KEY: 800})
    assert ended.until(900) == (900, {KEY: 900})


def test_a_hundredth_may_be_missing() -> None:
    assert missing({KEY: 1_000}, {KEY: 990}) == {}
    assert missing({KEY: 1_000, ("b", ""): 3}, {KEY: 989}) == {KEY: 11, ("b", ""): 3}


def test_a_document_names_the_newest_gaps_first_and_counts_the_others() -> None:
    gaps = [Gap(minute * 60, minute * 60 + 30, "telemetry is down", {KEY: minute}) for minute in range(1, 9)]
    found = document(gaps, {}, Span(90 * SECOND_NS, 9_000 * SECOND_NS), 9_000 * SECOND_NS)
    assert found is not None
    assert [gap["from_s"] for gap in found["gaps"]] == [480, 420, 360, 300, 240]
    assert found["others"] == 7 - MAX_SHOWN  # the first of eight ends when the period begins
    assert (found["seconds"], found["requests"]) == (7 * 30, sum(range(2, 9)))


@pytest.mark.parametrize(("lost", "in_part"), [(49, True), (50, False), (None, False)])
def test_a_gap_of_less_than_half_the_requests_is_one_in_part(lost: int | None, in_part: bool) -> None:
    gap = Gap(0, 60, "spans were lost", None if lost is None else {KEY: lost}, ended={KEY: 100})
    found = document([gap], {}, Span(0, 600 * SECOND_NS), 600 * SECOND_NS)
    assert found is not None and (found["in_part"], found["requests"]) == (in_part, lost)
