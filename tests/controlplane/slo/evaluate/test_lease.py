"""One process leads, and another takes over."""

from datetime import UTC, datetime, timedelta

import pytest

from controlplane.slo.evaluate.lease import LeaseLostError, fence, give_up, take
from controlplane.slo.models import Lease

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 21, tzinfo=UTC)
LASTS = timedelta(seconds=20)


def test_the_first_process_leads_while_it_renews_the_lease() -> None:
    assert take("c", "a", NOW, LASTS)
    assert not take("c", "b", NOW, LASTS)
    later = NOW + timedelta(seconds=15)
    assert take("c", "a", later, LASTS)
    assert not take("c", "b", NOW + timedelta(seconds=30), LASTS)
    assert Lease.objects.get().generation == 1


def test_another_takes_over_when_the_lease_ends_and_the_first_learns_of_it() -> None:
    take("c", "a", NOW, LASTS)
    after = NOW + LASTS
    assert take("c", "b", after, LASTS)
    assert not take("c", "a", after, LASTS)
    assert Lease.objects.get().generation == 2


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
