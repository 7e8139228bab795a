from datetime import UTC, datetime, timedelta

import pytest

from controlplane.fleet.models import Observation
from controlplane.fleet.observe.core.reading import Reading, down
from controlplane.fleet.observe.round import Seen
from controlplane.fleet.observe.store_observation import record

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)


def replica(reading: Reading, name: str = "near/one") -> Seen:
    return Seen(name, "replica", reading)


def latest(name: str = "near/one") -> Observation:
    return Observation.objects.get(component=name)


def test_the_latest_replaces_the_one_before_and_brings_rates() -> None:
    record([replica(Reading("up", {"pending": 1}, {"requests": 100}))], NOW)
    record([replica(Reading("up", {"pending": 2}, {"requests": 130}))], NOW + timedelta(seconds=10))
    assert latest().figures == {"pending": 2, "requests_per_s": 3}
    assert latest().observed_at == NOW + timedelta(seconds=10)


def test_a_component_that_went_down_keeps_no_figures() -> None:
    record([replica(Reading("up", {"pending": 1}, {"requests": 100}))], NOW)
    record([replica(down("connection refused"))], NOW + timedelta(seconds=5))
    assert (latest().state, latest().figures, latest().error) == ("down", {}, "connection refused")


def test_rates_begin_anew_after_an_outage() -> None:
    record([replica(down("connection refused"))], NOW)
    record([replica(Reading("up", {}, {"requests": 7}))], NOW + timedelta(seconds=5))
    assert latest().figures == {}


def test_a_replica_that_was_removed_is_forgotten_and_the_worker_is_not() -> None:
    Observation.objects.create(component="worker", kind="worker", state="up", observed_at=NOW)
    record([replica(Reading("up")), replica(Reading("up"), "near/two")], NOW)
    record([replica(Reading("up"))], NOW)
    assert set(Observation.objects.values_list("component", flat=True)) == {"near/one", "worker"}


def test_when_it_was_last_seen_up_and_first_seen_down_is_kept_while_it_is_down() -> None:
    look = (NOW + timedelta(seconds=5 * number) for number in range(9))
    record([replica(Reading("up"))], next(look))
    for _ in range(3):
        record([replica(down("connection refused"))], next(look))
    assert (latest().up_at, latest().down_since) == (NOW, NOW + timedelta(seconds=5))
    record([replica(Reading("degraded"))], next(look))
    assert (latest().up_at, latest().down_since) == (NOW + timedelta(seconds=20), None)
    record([replica(down("connection refused"))], next(look))
    assert latest().down_since == NOW + timedelta(seconds=25)


def test_what_was_never_seen_up_says_so() -> None:
    record([replica(down("connection refused"))], NOW)
    assert (latest().up_at, latest().down_since) == (None, NOW)
