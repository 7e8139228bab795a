"""One process leads, and another takes over."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from controlplane.core.lease import LeaseLostError, fence, give_up, raise_above, take
from controlplane.core.models import Lease
from tests.support.wait import eventually

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 21, tzinfo=UTC)
LASTS = timedelta(seconds=20)


def test_the_first_process_leads_while_it_renews_the_lease() -> None:
    first = take("c", "a", NOW, LASTS)
    assert first
    assert not take("c", "b", NOW, LASTS)
    later = NOW + timedelta(seconds=15)
    assert take("c", "a", later, LASTS) == first
    assert not take("c", "b", NOW + timedelta(seconds=30), LASTS)
    assert Lease.objects.get().generation == first


def test_another_takes_over_when_the_lease_ends_and_the_first_learns_of_it() -> None:
    first = take("c", "a", NOW, LASTS)
    after = NOW + LASTS
    assert take("c", "b", after, LASTS) > first
    assert not take("c", "a", after, LASTS)


def test_a_leader_whose_clock_was_ahead_keeps_nobody_out_once_it_renews_no_more() -> None:
    short = timedelta(milliseconds=50)
    first = take("skewed", "a", NOW + timedelta(hours=1), short)
    assert not take("skewed", "b", NOW, short)
    eventually(lambda: take("skewed", "b", NOW, short) > first)
    assert not take("skewed", "a", NOW, short)


def test_a_leader_whose_clock_is_ahead_keeps_others_out_while_it_renews() -> None:
    short, ahead = timedelta(milliseconds=50), NOW + timedelta(hours=1)
    began_s = time.monotonic()
    while time.monotonic() - began_s < 4 * short.total_seconds():
        ahead += timedelta(milliseconds=1)
        assert take("skewed", "a", ahead, short)
        assert not take("skewed", "b", NOW, short)


def test_a_lease_that_is_given_up_is_taken_at_once() -> None:
    take("c", "a", NOW, LASTS)
    give_up("c", "b", NOW)
    assert not take("c", "b", NOW, LASTS)
    give_up("c", "a", NOW)
    assert take("c", "b", NOW, LASTS)


def test_leases_of_different_names_are_different() -> None:
    assert take("c", "a", NOW, LASTS)
    assert take("d", "b", NOW, LASTS)


def test_each_generation_writes_until_another_has_taken_it() -> None:
    first = take("c", "a", NOW, LASTS)
    fence("c", "a", first)
    assert take("c", "a", NOW + LASTS / 2, LASTS) == first
    second = take("c", "b", NOW + LASTS * 2, LASTS)
    fence("c", "b", second)
    with pytest.raises(LeaseLostError, match="another leads"):
        fence("c", "a", first)
    give_up("c", "b", NOW + LASTS * 2)
    assert take("c", "a", NOW + LASTS * 2, LASTS) > second
    with pytest.raises(LeaseLostError):
        fence("c", "a", first)  # what it began before, too


def test_a_generation_grows_though_the_row_was_lost() -> None:
    """Clusters and the snapshot's row refuse older generations than they have seen, and a truncated table began at 1 again."""
    generations = [
        take("c", "a", NOW, LASTS),
        take("c", "b", NOW + LASTS, LASTS),
        take("c", "a", NOW + 2 * LASTS, LASTS),
    ]
    assert generations == sorted(set(generations))
    Lease.objects.all().delete()
    assert take("c", "d", NOW + 3 * LASTS, LASTS) > generations[-1]


def test_a_generation_grows_though_the_row_is_one_of_a_backup() -> None:
    take("c", "a", NOW, LASTS)
    backup = Lease.objects.values().get()
    last = take("c", "b", NOW + LASTS, LASTS)
    Lease.objects.update(**backup)
    assert take("c", "d", NOW + 2 * LASTS, LASTS) > last


def test_a_leader_that_runs_on_over_a_backup_of_its_own_time_takes_a_new_generation() -> None:
    first = take("c", "a", NOW, LASTS)
    backup = Lease.objects.values().get()
    take("c", "b", NOW + LASTS, LASTS)
    later = take("c", "a", NOW + 2 * LASTS, LASTS)
    Lease.objects.update(**(backup | {"expires_at": NOW + 4 * LASTS}))
    again = take("c", "a", NOW + 2 * LASTS + timedelta(seconds=1), LASTS)
    assert again > later > first
    with pytest.raises(LeaseLostError):
        fence("c", "a", first)


def test_a_generation_grows_though_the_next_leaders_clock_is_behind() -> None:
    first = take("c", "e", NOW, LASTS)
    give_up("c", "e", NOW - timedelta(hours=2))
    assert take("c", "f", NOW - timedelta(hours=1), LASTS) == first + 1
    give_up("c", "f", NOW - timedelta(days=30_000))
    assert take("c", "g", NOW - timedelta(days=20_000), LASTS) == first + 2, "before any clock of today"


def test_a_raised_generation_is_the_holders_from_its_next_renewal_on() -> None:
    first = take("c", "a", NOW, LASTS)
    assert raise_above("c", first + 99, NOW) == first + 100
    with pytest.raises(LeaseLostError):
        fence("c", "a", first)
    assert take("c", "a", NOW + LASTS / 2, LASTS) == first + 100
    assert raise_above("c", first + 50, NOW) == first + 100, "never lower"
    high = raise_above("other", first + 50, NOW)
    assert take("other", "b", NOW, LASTS) > high > first + 50, "also where nobody has taken it"
