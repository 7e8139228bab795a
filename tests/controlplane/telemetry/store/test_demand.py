"""Demand as it is read: current builds, any step, and which steps are known."""

import numpy as np
import pytest

from controlplane.telemetry.metrics.batch import Scrape
from controlplane.telemetry.store import Store, StoreInputError
from tests.support.planning.stored_demand import TOKENS_IN, store_demand, store_recorded
from tests.support.telemetry.embedded_store import UNASKED
from tests.support.telemetry.samples import S
from tests.support.telemetry.stored_metrics import scraped

FROM_S = 1_794_787_200
"""2026-11-16 00:00 UTC: long over."""
TO_S = FROM_S + 6 * 300
DAY_S = 86_400
EU, US = ("chat-large", "premium", "eu"), ("chat-large", "premium", "us")


def read(store: Store, **options: object) -> dict[str, list[tuple[int, float]]]:
    rows = store.demand.steps(FROM_S, TO_S, **options)  # type: ignore[arg-type]
    return {
        row.region: sorted(zip(((row.start_s - FROM_S) // 300).tolist(), row.counts["requests"].tolist(), strict=True))
        for row in rows
    }


def test_demand_is_read_by_key_and_step(store: Store) -> None:
    store_demand(store, FROM_S, [5, 0, 7], EU, shed=1)
    store_demand(store, FROM_S, [2, 4, 0, 6], US, build=100, finished=False)
    assert read(store) == {"eu": [(0, 5), (2, 7)]}, "a build that is not finished does not count"
    store_demand(store, FROM_S, [0, 4], US, build=200)
    assert read(store) == {"eu": [(0, 5), (2, 7)], "us": [(1, 4)]}


def test_longer_steps_are_sums_and_a_key_can_be_read_alone(store: Store) -> None:
    store_demand(store, FROM_S, [5, 1, 7, 2], EU)
    store_demand(store, FROM_S, [9, 9, 9, 9], US, finished=False)
    assert read(store, step_s=600, key=EU) == {"eu": [(0, 6), (2, 9)]}
    assert read(store, step_s=600, key=("chat-small", "premium", "eu")) == {}
    [eu] = store.demand.steps(FROM_S, TO_S, 600, EU)
    assert sorted(eu.counts["input_tokens"].tolist()) == [6 * TOKENS_IN, 9 * TOKENS_IN]


def known(store: Store, step_s: int = 300, region: str = "eu") -> list[float]:
    return [round(share, 3) for share in store.demand.known(FROM_S, TO_S, step_s).of(region).tolist()]


def looks(store: Store, found: str, step: int, *, every_s: int = 30, error: str = "no answer within 10 s") -> None:
    """Looks at the gateway from the beginning of a step on: `+` found it."""
    at_ns = [(FROM_S + 300 * step + every_s * number) * S for number in range(len(found))]
    url = "http://gateway/metrics"
    scraped(
        store,
        [
            Scrape(time_ns, "gateway", "gateway", url, each == "+", 1, 1, "" if each == "+" else error)
            for time_ns, each in zip(at_ns, found, strict=True)
        ],
    )


def test_nothing_counted_means_none_only_where_telemetry_received(store: Store) -> None:
    store_demand(store, FROM_S, [5, 0, 0, 8, 9], EU)
    store_recorded(store, FROM_S, [300, 300, 140, 0, 20, 299])
    assert known(store) == [1, 1, 0, 1, 0, 1]
    assert known(store, 900) == [0.667, 0.667]
    assert known(store, 1800) == [0.667]


def test_written_requests_that_are_not_counted_yet_are_a_gap(store: Store) -> None:
    store_recorded(store, FROM_S, [300] * 6)
    store.command(f"INSERT INTO rollup_touched VALUES ({FROM_S // 300 + 1}, 3)")
    assert known(store) == [1, 0, 1, 1, 1, 1]


def test_demand_is_unknown_while_no_gateway_was_there(store: Store) -> None:
    store_recorded(store, FROM_S, [300] * 6)
    store_demand(store, FROM_S, [10, 2, 0, 8, 10, 10], EU)
    looks(store, "++++++++++" + "+" + "-" * 19 + "--++++++++" + "+" * 20, 0)
    assert known(store) == [1, 0, 0, 0.8, 1, 1], "what came within most of a step says how much came in it"


def test_a_gateway_that_wants_a_token_is_there(store: Store) -> None:
    store_recorded(store, FROM_S, [300] * 6)
    looks(store, "-" * 60, 0, error="it answers 401")
    assert known(store) == [1] * 6


def test_looks_that_never_reach_a_gateway_with_traffic_are_no_outage(store: Store) -> None:
    store_recorded(store, FROM_S, [300] * 6)
    store_demand(store, FROM_S, [10] * 6, EU)
    looks(store, "-" * 60, 0)
    assert known(store)[1:-1] == [1] * 4


def test_demand_is_unknown_while_clients_of_a_region_are_away(store: Store) -> None:
    """Two days of steady traffic, then nothing of one region for the first half an hour of the third."""
    store_recorded(store, FROM_S - 2 * DAY_S, [300] * (2 * 288 + 6))
    store_demand(store, FROM_S - 2 * DAY_S, [30] * 2 * 288, EU)
    store_demand(store, FROM_S - 2 * DAY_S, [30] * (2 * 288 + 6), US)
    store_demand(store, FROM_S - 2 * DAY_S, [9] * 2 * 288, ("chat-large", "premium", "asia"))
    assert known(store) == [0] * 6
    assert known(store, region="us") == [1] * 6
    assert known(store, region="asia") == [1] * 6, "few requests may be none by chance"
    assert known(store, region="nobody") == [1] * 6


def test_time_that_is_not_over_is_not_measured(store: Store) -> None:
    ahead_s = 4_000_000_200
    store_recorded(store, ahead_s, [300])
    assert not np.any(store.demand.known(ahead_s, ahead_s + 300).of("eu"))


@pytest.mark.parametrize("wrong", [(FROM_S, TO_S, 60), (FROM_S + 1, TO_S, 300), (TO_S, FROM_S, 300)])
def test_a_range_that_does_not_fit_is_refused(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(StoreInputError, match=r"step_s|range"):
        UNASKED.demand.steps(*wrong)


def test_an_empty_store_has_no_demand(store: Store) -> None:
    assert store.demand.steps(FROM_S, TO_S) == []
    assert known(store) == [0] * 6
