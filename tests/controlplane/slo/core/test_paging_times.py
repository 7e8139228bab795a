"""When a total outage pages, and that a slow burn and low traffic do not."""

import pytest

from controlplane.slo.core.burn import MinimumEvents, judge, worst
from controlplane.slo.core.counts import Counts
from controlplane.slo.core.windows import DAY_S, HOUR_S, WORKBOOK, lengths_s

PERIOD_S = 30 * DAY_S


def pages(counts: dict[int, Counts], target: float = 0.999) -> bool:
    found = worst(judge(counts, target, PERIOD_S))
    return found is not None and found.window.severity == "page"


def outage(began_s: int, per_s: float) -> dict[int, Counts]:
    """Steady traffic, all of which fails since `began_s` seconds."""
    return {
        length: Counts(int(min(began_s, length) * per_s), max(int(length * per_s), int(min(began_s, length) * per_s)))
        for length in lengths_s(WORKBOOK)
    }


@pytest.mark.parametrize("per_s", [1.0, 10.0, 1000.0])
def test_a_total_outage_pages_within_a_minute(per_s: float) -> None:
    """14.4 × 0.001 of an hour is 51.84 s: what is left of 75 s is for the ledger, a tick of 5 s, and delivery."""
    assert not pages(outage(51, per_s))
    assert pages(outage(53, per_s))


def test_nine_tenths_of_the_budgets_rate_for_a_month_pages_and_tickets_nobody() -> None:
    for minute in range(0, PERIOD_S // 60, 7):
        counts = {
            length: Counts(int(0.9 * 0.001 * length * 50), length * 50)
            for length in lengths_s(WORKBOOK)
            if length <= max(minute * 60, HOUR_S // 12)
        }
        counts |= {length: Counts() for length in lengths_s(WORKBOOK) if length not in counts}
        assert worst(judge(counts, 0.999, PERIOD_S)) is None


@pytest.mark.parametrize("requests", [1, 2, 5, 10])
def test_one_error_among_ten_requests_pages_nobody(requests: int) -> None:
    assert worst(judge({length: Counts(1, requests) for length in lengths_s(WORKBOOK)}, 0.999, PERIOD_S)) is None


def test_without_the_minimum_it_pages() -> None:
    counts = {length: Counts(1, 10) for length in lengths_s(WORKBOOK)}
    assert worst(judge(counts, 0.999, PERIOD_S, minimum=MinimumEvents(0, 0))) is not None


def test_it_stops_within_the_short_window_after_the_outage_is_over() -> None:
    during = outage(600, 10)
    after = {**during, 300: Counts(0, 3_000), 1800: Counts(30, 18_000)}
    assert pages(during)
    assert not pages(after)
