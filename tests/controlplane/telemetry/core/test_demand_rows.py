"""Which steps of demand are known: from looks at gateways, and from requests that stay away."""

import numpy as np

from controlplane.telemetry.core.demand_rows import STEPS_PER_DAY, served, without_clients

DAY = STEPS_PER_DAY


def test_without_clients_begins_where_no_request_arrives_and_ends_after_a_day() -> None:
    arrived = np.full(4 * DAY, 30.0)
    arrived[2 * DAY + 10 :] = 0  # they are gone for good
    away = np.flatnonzero(without_clients(arrived, np.ones(4 * DAY)))
    assert (away[0], away[-1]) == (2 * DAY + 9, 3 * DAY + 4), "the step before has only part of its requests"
    assert len(away) == away[-1] - away[0] + 1


def test_the_day_before_a_gap_says_what_is_usual() -> None:
    arrived, share = np.full(3 * DAY, 30.0), np.ones(3 * DAY)
    share[DAY : 2 * DAY] = 0
    arrived[DAY : 2 * DAY] = 0
    arrived[2 * DAY + 100] = 0
    assert np.flatnonzero(without_clients(arrived, share)).tolist() == [2 * DAY + 99, 2 * DAY + 100, 2 * DAY + 101]


def test_a_quiet_night_is_no_outage() -> None:
    arrived = np.full(3 * DAY, 30.0)
    for day in range(3):
        arrived[day * DAY + 20 : day * DAY + 60] = 0
    assert not without_clients(arrived, np.ones(3 * DAY)).any()


def test_steps_without_a_look_are_as_telemetry_says() -> None:
    assert served(np.array([np.nan, 0.4, 1.0]), np.zeros(3)).tolist() == [1, 0.4, 1]
