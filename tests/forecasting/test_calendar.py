"""The real calendar: local time, holidays, planned events, and what is refused."""

from datetime import date

import numpy as np
import pytest

from forecasting.calendar import DAY_S, HOUR_S, Calendar, CalendarError, PlannedEvent

LAST_MARCH_SUNDAY_S = 1774746000  # 29 March 2026, 01:00 UTC: clocks in Berlin go from 2:00 to 3:00


def test_local_time_is_ahead_by_what_it_is_at_that_time() -> None:
    times_s = LAST_MARCH_SUNDAY_S + np.array([-1, 0, -HOUR_S, HOUR_S])
    assert Calendar("Europe/Berlin").offsets_s(times_s).tolist() == [3600, 7200, 3600, 7200]
    assert Calendar().offsets_s(times_s).tolist() == [0, 0, 0, 0]


def test_holidays_are_those_of_the_country_between_two_times() -> None:
    first_s, last_s = 1766275200, 1767312000  # 21 December 2025 to 2 January 2026
    names = dict(Calendar("Europe/Berlin", "DE").holidays(first_s, last_s))
    assert sorted(names) == [date(2025, 12, 25), date(2025, 12, 26), date(2026, 1, 1)]
    assert list(Calendar().holidays(first_s, last_s)) == []
    assert date(2026, 1, 6) in dict(Calendar(country="DE", subdivision="BY").holidays(first_s, last_s + 7 * DAY_S))


def test_events_multiply_demand_by_the_share_of_each_step_that_they_cover() -> None:
    launch = PlannedEvent("launch", 900, 3000, factor=3.0)
    campaign = PlannedEvent("campaign", 1800, 2400, factor=2.0)
    learned = PlannedEvent("sale", 0, 6000)
    factors = Calendar(events=(launch, campaign, learned)).factors(np.arange(0, 3600, 600), 600)
    assert factors.tolist() == [1, 2, 3, 6, 3, 1]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"timezone": "Europe/Atlantis"}, "timezone is 'Europe/Atlantis': give an IANA name"),
        ({"timezone": "../../etc/passwd"}, "timezone is"),
        ({"country": "XX"}, "country is 'XX': give an ISO 3166 code"),
        ({"country": "DE", "subdivision": "ZZ"}, "subdivision is 'ZZ': give one of DE's: BB, BE"),
    ],
)
def test_a_calendar_that_cannot_be_is_refused(fields: dict[str, str], message: str) -> None:
    with pytest.raises(CalendarError, match=message):
        Calendar(**fields)


@pytest.mark.parametrize(
    ("end_s", "factor", "message"),
    [
        (10, None, "event 'launch': end_s is 10: give a time after start_s, 10"),
        (20, 0.0, "event 'launch': factor is 0.0: give a number above 0"),
        (20, float("nan"), "factor is nan"),
    ],
)
def test_an_event_that_cannot_be_is_refused(end_s: int, factor: float | None, message: str) -> None:
    with pytest.raises(CalendarError, match=message):
        PlannedEvent("launch", 10, end_s, factor)
