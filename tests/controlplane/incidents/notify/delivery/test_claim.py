"""Several senders, leases, pauses: decided in the database, one moment at a time."""

from datetime import timedelta

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as some

from controlplane.incidents.notify.delivery import enqueue
from controlplane.incidents.notify.delivery.core.retry import Answer, Policy
from controlplane.incidents.notify.delivery.models import Delivery
from controlplane.incidents.notify.delivery.send.claim import choose, claim, heads, settle
from tests.support.incidents.notices import change, notice, pagerduty

pytestmark = pytest.mark.django_db
POLICY = Policy()
TAKEN, BUSY = Answer(202), Answer(503, "busy")


def claimed(after_s: float = 0.0) -> list[Delivery]:
    return claim(timezone.now() + timedelta(seconds=after_s), POLICY, 100, 100, {})


def test_of_a_key_only_the_earliest_step_is_claimed_and_the_next_one_once_that_is_settled() -> None:
    pagerduty("all")
    enqueue(notice("trigger", 1))
    enqueue(notice("resolve", 2))
    enqueue(notice("trigger", 1, key="incident-2"))
    first = {one.key: one for one in claimed()}
    assert {key: one.action for key, one in first.items()} == {"incident-1": "trigger", "incident-2": "trigger"}
    assert claimed() == []
    settle(first["incident-1"], TAKEN, timezone.now(), POLICY, 0)
    assert [(one.key, one.action) for one in claimed()] == [("incident-1", "resolve")]


def test_each_endpoint_has_an_order_of_its_own() -> None:
    pagerduty("one", 1)
    pagerduty("two", 2)
    enqueue(notice("trigger", 1))
    enqueue(notice("acknowledge", 2))
    for one in claimed():
        if one.destination and one.destination.name == "one":
            settle(one, TAKEN, timezone.now(), POLICY, 0)
    assert [(one.action, str(one.destination)) for one in claimed()] == [("acknowledge", "one")]


def test_what_a_killed_sender_held_is_claimed_again_once_its_lease_is_over() -> None:
    pagerduty("all")
    enqueue(notice("trigger", 1))
    (held,) = claimed()
    assert held.claimed_until
    late = held.claimed_until + timedelta(milliseconds=1)
    assert not heads(late - timedelta(seconds=1)).exists()
    assert heads(late).exists()


def test_an_answer_that_comes_after_another_took_over_counts_for_nothing() -> None:
    """The other may be sending the same step this moment; were the next one free now, it could arrive before."""
    pagerduty("all")
    enqueue(notice("trigger", 1))
    enqueue(notice("resolve", 2))
    (slow,) = claimed()
    Delivery.objects.update(claimed_until=timezone.now() - timedelta(seconds=1))
    (taken_over,) = claimed()
    settle(slow, TAKEN, timezone.now(), POLICY, 0)
    assert claimed() == []
    settle(taken_over, TAKEN, timezone.now(), POLICY, 0)
    assert [one.action for one in claimed()] == ["resolve"]


def test_a_failed_attempt_waits_and_holds_back_what_follows_but_nothing_else() -> None:
    pagerduty("all")
    enqueue(notice("trigger", 1))
    enqueue(notice("resolve", 2))
    (one,) = claimed()
    now = timezone.now()
    settle(one, BUSY, now, POLICY, chance=1.0)
    one.refresh_from_db()
    assert one.due_at == now + timedelta(seconds=POLICY.first_s)
    assert (one.state, one.attempts, one.status, one.error) == ("pending", 1, 503, "503 busy")
    assert not heads(now).exists()
    assert [head.action for head in heads(now + timedelta(seconds=1))] == ["trigger"]


def test_too_many_requests_pauses_the_whole_address() -> None:
    pagerduty("asks for a pause", 1)
    pagerduty("does not", 2)
    enqueue(notice("trigger", 1))
    first = next(one for one in claimed() if str(one.destination) == "asks for a pause")
    now = timezone.now()
    settle(first, Answer(429, "slow down", retry_after_s=60), now, POLICY, chance=0)
    enqueue(notice("trigger", 1, key="incident-2"))
    assert {str(head.destination) for head in heads(now + timedelta(seconds=59))} == {"does not"}
    assert {str(head.destination) for head in heads(now + timedelta(seconds=61))} == {"does not", "asks for a pause"}


def test_a_page_that_a_clock_has_put_off_that_was_ahead_is_sent_at_once() -> None:
    pagerduty("all")
    enqueue(notice("trigger", 1))
    (failed,) = claimed()
    now = timezone.now()
    settle(failed, Answer(429, "slow down", retry_after_s=120), now + timedelta(hours=1), POLICY, chance=1)
    assert heads(now).exists()


def test_a_change_that_comes_too_late_is_dropped_and_a_page_never_is() -> None:
    pagerduty("all")
    enqueue(change())
    enqueue(notice("trigger", 1))
    Delivery.objects.update(enqueued_at=timezone.now() - timedelta(days=2))
    assert [one.action for one in claimed()] == ["trigger"]
    assert Delivery.objects.get(action="change").state == "dropped"


@given(
    some.lists(some.tuples(some.integers(1, 1_000), some.integers(1, 5)), max_size=60, unique_by=lambda it: it[0]),
    some.integers(0, 32),
    some.integers(1, 8),
    some.dictionaries(some.integers(1, 5), some.integers(0, 8)),
)
def test_no_endpoint_gets_more_than_its_share_and_the_first_come_first(
    due: list[tuple[int, int]], free: int, per_endpoint: int, busy: dict[int, int]
) -> None:
    chosen = choose(due, free, per_endpoint, busy)
    assert len(chosen) <= free
    by_endpoint = {endpoint: [delivery for delivery, at in due if at == endpoint] for _, endpoint in due}
    for endpoint, deliveries in by_endpoint.items():
        mine = [delivery for delivery in deliveries if delivery in chosen]
        assert mine == deliveries[: len(mine)]
        assert not mine or busy.get(endpoint, 0) + len(mine) <= per_endpoint
