"""Two processes that write steps of one key at the same time: neither loses a step, nor writes one twice. On PostgreSQL too."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, connections, transaction
from django.utils import timezone

from controlplane.incidents.notify.delivery import enqueue, outbox
from controlplane.incidents.notify.delivery.core.retry import Answer, Policy
from controlplane.incidents.notify.delivery.models import Delivery, Destination
from controlplane.incidents.notify.delivery.send import fallback
from controlplane.incidents.notify.delivery.send.claim import send_again, settle
from tests.support.incidents.notices import notice, pagerduty

pytestmark = pytest.mark.django_db(transaction=True)
BLOCKED_S = {"postgresql": 1.0, "sqlite": 0.2}
"""After so long the second counts as blocked by the first. On SQLite it always is: there is one writer at a time."""


@pytest.fixture
def paged() -> Delivery:
    """A trigger on its way to a destination that has a fallback."""
    duty = pagerduty("duty", 1)
    duty.fallback = pagerduty("fallback", 2, severities=[])
    duty.save()
    enqueue(notice("trigger", 1))
    trigger = Delivery.objects.select_related("destination__fallback", "endpoint").get()
    trigger.claim = "ours"
    trigger.save()
    return trigger


def meanwhile(first: Callable[[], Any], second: Callable[[], Any]) -> None:
    """`first` in a transaction that stays open until `second`, in another thread, has ended or turned out to wait for it."""
    begun, ended, failed = threading.Event(), threading.Event(), []

    def run() -> None:
        begun.wait(120)
        try:
            second()
        except Exception as error:  # noqa: BLE001  (reported by the assertion)
            failed.append(error)
        finally:
            connections.close_all()
            ended.set()

    other = threading.Thread(target=run)
    other.start()
    with transaction.atomic():
        first()
        begun.set()
        ended.wait(BLOCKED_S[connection.vendor])
    other.join(120)
    assert not failed, failed


def written() -> list[tuple[str, str]]:
    rows = Delivery.objects.order_by("destination__name", "sequence", "id").select_related("destination")
    return [(str(one.destination), one.action) for one in rows]


def refuse(trigger: Delivery) -> None:
    settle(trigger, Answer(400, "invalid routing key"), timezone.now(), Policy(), 0.5)


def test_a_resolve_that_is_written_while_the_trigger_falls_through_reaches_the_fallback_too(paged: Delivery) -> None:
    meanwhile(lambda: enqueue(notice("resolve", 2)), lambda: refuse(paged))
    assert ("fallback", "trigger") in written()
    assert ("fallback", "resolve") in written()


def test_a_resolve_that_is_written_just_after_the_trigger_fell_through_reaches_the_fallback_too(
    paged: Delivery,
) -> None:
    meanwhile(lambda: refuse(paged), lambda: enqueue(notice("resolve", 2)))
    assert ("fallback", "trigger") in written()
    assert ("fallback", "resolve") in written()


def test_two_senders_that_let_one_page_fall_through_write_it_once(paged: Delivery) -> None:
    meanwhile(lambda: fallback.fall_through(paged), lambda: fallback.fall_through(paged))
    assert written().count(("fallback", "trigger")) == 1


def test_a_page_that_was_accepted_meanwhile_does_not_fall_through(paged: Delivery) -> None:
    Delivery.objects.filter(pk=paged.pk).update(state="delivered", settled_at=timezone.now())
    assert not fallback.fall_through(paged)
    assert written() == [("duty", "trigger")]


def test_two_controllers_that_find_a_new_destination_send_it_the_page_once(paged: Delivery) -> None:
    pagerduty("new", 3)
    meanwhile(lambda: outbox.catch_up(paged.key), lambda: transaction.atomic(outbox.catch_up)(paged.key))
    assert written().count(("new", "trigger")) == 1


def test_a_refused_trigger_that_is_sent_again_while_its_resolve_is_written_is_followed_by_it(paged: Delivery) -> None:
    Destination.objects.update(fallback=None)
    paged.destination = Destination.objects.get(name="duty")
    refuse(paged)
    meanwhile(lambda: send_again(paged), lambda: enqueue(notice("resolve", 2)))
    assert written() == [("duty", "trigger"), ("duty", "resolve")]


def test_the_lock_is_of_one_key(paged: Delivery) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time, whatever it writes")
    ended = threading.Event()

    def other() -> None:
        enqueue(notice("trigger", 1, key="incident-2"))
        ended.set()

    def first() -> None:
        enqueue(notice("resolve", 2))
        thread = threading.Thread(target=lambda: (other(), connections.close_all()))
        thread.start()
        assert ended.wait(120), "another key's writer waits for nobody"
        thread.join()

    transaction.atomic(first)()
