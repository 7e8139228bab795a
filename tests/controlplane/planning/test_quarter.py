"""Calendar quarters of UTC."""

import itertools
from datetime import UTC, datetime

import pytest

from controlplane.planning.quarter import Quarter, quarters_from


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


@pytest.mark.parametrize(
    ("moment", "name"),
    [
        ("2026-01-01T00:00:00", "2026-Q1"),
        ("2026-03-31T23:59:59", "2026-Q1"),
        ("2026-11-22T07:00:00", "2026-Q4"),
        ("2026-12-31T23:59:59", "2026-Q4"),
    ],
)
def test_a_moment_is_in_one_quarter(moment: str, name: str) -> None:
    assert Quarter.at(at(moment)).name == name


def test_quarters_follow_one_another_without_gaps() -> None:
    quarters = quarters_from(at("2027-08-01"), 9)
    assert [quarter.name for quarter in quarters[:3]] == ["2027-Q3", "2027-Q4", "2028-Q1"]
    for quarter, following in itertools.pairwise(quarters):
        assert quarter.start_s + quarter.hours * 3600 == following.start_s


def test_a_name_is_read_back() -> None:
    assert Quarter.parse("2027-Q1") == Quarter(2027, 1)


@pytest.mark.parametrize("text", ["2027-Q0", "2027-Q5", "27-Q1", "2027Q1", "", "2027-Q1 ", "２０２７-Q1"])
def test_what_is_no_quarter_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quarter"):
        Quarter.parse(text)
