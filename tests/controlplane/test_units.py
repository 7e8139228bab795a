"""Numbers carry their units."""

import pytest

from controlplane.core import units


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"), (0, "0 ms"), (0.0421, "42.1 µs"), (0.42, "420 µs"), (0.9999, "1.00 ms"), (1.234, "1.23 ms"), (41.26, "41.3 ms"),
        (999.4, "999 ms"), (999.6, "1.00 s"), (1930, "1.93 s"), (125_000, "2 m 05 s"), (-3.5, "-3.50 ms"),
    ],
)  # fmt: skip
def test_milliseconds_have_three_figures_and_the_unit_that_suits_them(value: float | None, text: str) -> None:
    assert units.ms(value).replace(units.THIN, " ") == text


def test_exact_milliseconds_lose_nothing() -> None:
    assert units.exact_ms(1_234_567_890).replace(units.THIN, " ") == "1 234.567 890"


@pytest.mark.parametrize(
    ("value", "text"), [(0.684, "68 %"), (0.004, "0.4 %"), (0.0001, "<0.1 %"), (0, "0 %"), (-0.02, "-2.0 %")]
)
def test_shares_are_percentages(value: float, text: str) -> None:
    assert units.share(value).replace(units.THIN, " ") == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (3, "3 s"), (119, "119 s"), (720, "12 min"), (18_000, "5 h"), (260_000, "3 d")]
)
def test_ages_are_in_their_largest_unit(seconds: float, text: str) -> None:
    assert units.age(seconds).replace(units.THIN, " ") == text


def test_instants_are_utc_to_the_millisecond() -> None:
    assert units.moment(1_795_183_500_250_999_999) == "2026-11-20 14:05:00.250"
    assert units.iso(1_795_183_500_250_999_999) == "2026-11-20T14:05:00.250999Z"
