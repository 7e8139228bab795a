"""What the outbox holds after a notice, and that it shares its caller's fate."""

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from controlplane.fleet.models import Team
from controlplane.incidents.notify.delivery import enqueue
from controlplane.incidents.notify.delivery.models import Delivery
from tests.support.incidents.notices import change, notice, pagerduty

pytestmark = pytest.mark.django_db


def waiting(key: str = "incident-1") -> list[tuple[str, str]]:
    rows = Delivery.objects.filter(key=key).order_by("sequence", "id")
    return [(one.action, one.destination.name if one.destination else "") for one in rows]


def test_a_notice_that_is_rolled_back_with_its_incident_was_never_there() -> None:
    pagerduty("all")
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        enqueue(notice("trigger", 1))
        assert waiting()
        1 / 0  # noqa: B018
    assert not waiting()


def test_a_team_without_destinations_is_told_through_the_default_ones() -> None:
    team = Team.objects.create(name="serving")
    pagerduty("all", 1)
    enqueue(notice("trigger", 1, team="serving"))
    pagerduty("serving", 2, team=team)
    enqueue(notice("trigger", 1, key="incident-2", team="serving"))
    assert waiting() == [("trigger", "all")]
    assert waiting("incident-2") == [("trigger", "serving")]


def test_what_follows_a_trigger_goes_where_the_trigger_went_although_the_destination_has_changed() -> None:
    destination = pagerduty("all", 1)
    enqueue(notice("trigger", 1))
    first = destination.endpoint
    destination.point_at("", "9" * 32)
    destination.enabled = False
    destination.save()
    pagerduty("new", 2)
    enqueue(notice("acknowledge", 2))
    enqueue(notice("resolve", 3))
    assert waiting() == [("trigger", "all"), ("acknowledge", "all"), ("resolve", "all")]
    assert {one.endpoint for one in Delivery.objects.all()} == {first}


def test_a_destination_that_does_not_take_the_severity_hears_nothing_of_the_incident_until_it_grows() -> None:
    pagerduty("critical only", 1, severities=["critical"])
    enqueue(notice("trigger", 1, severity="warning"))
    enqueue(notice("acknowledge", 2, severity="warning"))
    assert waiting() == []
    enqueue(notice("trigger", 3))
    enqueue(notice("resolve", 4, severity="warning"))
    assert waiting() == [("trigger", "critical only"), ("resolve", "critical only")]


def test_two_destinations_of_one_service_are_told_once_and_a_sequence_comes_once() -> None:
    pagerduty("here", 1)
    pagerduty("there", 1)
    enqueue(notice("trigger", 1))
    assert len(waiting()) == 1
    with pytest.raises(IntegrityError):
        enqueue(notice("trigger", 1))


def test_a_change_goes_to_whoever_takes_changes() -> None:
    pagerduty("takes", 1)
    pagerduty("does not", 2, takes_changes=False)
    enqueue(change())
    (one,) = Delivery.objects.all()
    assert (one.action, one.is_page, one.destination and one.destination.name) == ("change", False, "takes")


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_a_key_that_pagerduty_would_refuse_is_refused_at_once(key: str) -> None:
    with pytest.raises(ValueError, match="use 1 to 255"):
        enqueue(notice("trigger", 1, key=key))


def test_what_was_done_in_the_one_pagerduty_is_not_told_there_and_the_key_is_closed_there_all_the_same() -> None:
    pagerduty("all")
    enqueue(notice("trigger", 1))
    Delivery.objects.update(state="delivered", settled_at=timezone.now())
    enqueue(notice("resolve", 2, known_to="pagerduty"))
    assert Delivery.objects.get(action="resolve").state == "dropped"
    enqueue(notice("acknowledge", 3))
    assert waiting() == [("trigger", "all"), ("resolve", "all")]


def test_a_trigger_that_still_waits_is_followed_by_the_resolve_although_it_was_done_there() -> None:
    pagerduty("all")
    enqueue(notice("trigger", 1))
    Delivery.objects.update(state="delivered", settled_at=timezone.now())
    enqueue(notice("trigger", 2))
    enqueue(notice("resolve", 3, known_to="pagerduty"))
    assert Delivery.objects.get(action="resolve").state == "pending"


def test_where_two_of_a_kind_were_told_both_hear_of_what_was_done_in_one_of_them() -> None:
    pagerduty("first", 1)
    pagerduty("second", 2)
    enqueue(notice("trigger", 1))
    Delivery.objects.update(state="delivered", settled_at=timezone.now())
    enqueue(notice("resolve", 2, known_to="pagerduty"))
    assert [one.state for one in Delivery.objects.filter(action="resolve")] == ["pending", "pending"]
