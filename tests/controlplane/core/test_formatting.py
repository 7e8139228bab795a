"""Numbers carry their"""

import pytest

from controlplane.core.formatting import PAGE, TEXT, THIN, iso
from controlplane.dashboard.core.zone import moment


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"), (0, "0 ms"), (0.0421, "42.1 µs"), (0.42, "420 µs"), (0.9999, "1.00 ms"), (1.234, "1.23 ms"), (41.26, "41.3 ms"),
        (999.4, "999 ms"), (999.6, "1.00 s"), (1930, "1.93 s"), (125_000, "2 m 05 s"), (-3.5, "-3.50 ms"),
    ],
)  # fmt: skip
def test_milliseconds_have_three_figures_and_the_unit_that_suits_them(value: float | None, text: str) -> None:
    assert TEXT.ms(value) == text


def test_exact_milliseconds_lose_nothing() -> None:
    assert TEXT.exact_ms(1_234_567_890) == "1 234.567 890"


@pytest.mark.parametrize(
    ("value", "text"), [(0.684, "68 %"), (0.004, "0.4 %"), (0.0001, "<0.1 %"), (0, "0 %"), (-0.02, "-2.0 %")]
)
def test_shares_are_percentages(value: float, text: str) -> None:
    assert TEXT.share(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0 s"), (0.4, "0 s"), (3, "3 s"), (60, "1 min"), (90, "90 s"), (119, "119 s"), (150, "2.5 min"), (720, "12 min"),
        (3600, "1 h"), (5400, "90 min"), (18_000, "5 h"), (86_400, "1 day"), (129_600, "36 h"), (260_000, "3 days"),
        (30 * 86_400, "30 days"),
    ],
)  # fmt: skip
def test_durations_are_in_their_largest_unit(seconds: float, text: str) -> None:
    assert TEXT.duration(seconds) == text


def test_instants_are_utc_to_the_millisecond() -> None:
    assert moment(1_795_183_500_250_999_999) == "2026-11-20 14:05:00.250"
    assert iso(1_795_183_500_250_999_999) == "2026-11-20T14:05:00.250999Z"


def test_what_is_configured_is_not_rounded() -> None:
    assert [TEXT.threshold_ms(value) for value in (0.2, 500, 1500, 123.456)] == [
        "200 µs",
        "500 ms",
        "1.5 s",
        "123.456 ms",
    ]
    assert [TEXT.target(value) for value in (0.95, 0.999, 0.99999)] == ["95 %", "99.9 %", "99.999 %"]


def test_a_measured_fraction_is_never_rounded_up_to_all() -> None:
    assert [TEXT.precise(value) for value in (0.9999999, 0.99934, 0.98)] == ["99.9999 %", "99.934 %", "98 %"]


def test_burn_rates_are_times() -> None:
    assert [TEXT.times(value) for value in (None, 1, 2.345, 14.4, 118.6)] == ["–", "1×", "2.3×", "14.4×", "119×"]


def test_pages_keep_a_number_and_its_unit_on_one_line() -> None:
    assert PAGE.count(1_234_567) == f"1{THIN}234{THIN}567"
    assert {PAGE.ms(3), PAGE.duration(3), PAGE.share(3)} == {f"3.00{THIN}ms", f"3{THIN}s", f"300{THIN}%"}


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0, "0"), (0.423, "0.42"), (3, "3"), (12.34, "12.3"), (99.96, "100"), (1234.4, "1 234")],
)
def test_a_number_without_a_unit_has_three_significant_figures_or_is_whole(value: float | None, text: str) -> None:
    assert TEXT.number(value) == text


@pytest.mark.parametrize(("value", "text"), [(None, "–"), (0, "0.00 USD"), (99.99, "99.99 USD"), (1234.4, "1 234 USD")])
def test_dollars_have_cents_while_they_are_few(value: float | None, text: str) -> None:
    assert TEXT.usd(value) == text
