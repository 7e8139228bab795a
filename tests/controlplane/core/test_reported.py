"""Reports of a process whose clock is ahead."""

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from controlplane.core.reported import reported_at
from controlplane.fleet.inventory import observations
from controlplane.fleet.models import Observation
from controlplane.incidents.notify.delivery.health.health import figures
from controlplane.incidents.notify.delivery.health.heartbeat import judged_at
from controlplane.incidents.notify.delivery.models import Heartbeat
from controlplane.slo.queries import present
from tests.support.wait import eventually

NOW = datetime(2026, 11, 21, tzinfo=UTC)
AHEAD, LITTLE = timedelta(hours=1), timedelta(milliseconds=20)


def test_a_report_of_the_past_keeps_its_time() -> None:
    assert reported_at("past", NOW - AHEAD, NOW) == NOW - AHEAD


def test_a_report_from_the_future_grows_old_unless_it_is_renewed() -> None:
    assert NOW - reported_at("ahead", NOW + AHEAD, NOW) < LITTLE
    eventually(lambda: NOW - reported_at("ahead", NOW + AHEAD, NOW) > LITTLE)
    assert NOW - reported_at("ahead", NOW + AHEAD + LITTLE, NOW) < LITTLE


@pytest.mark.django_db
def test_a_controller_that_ended_while_its_clock_was_ahead_is_not_taken_for_one_that_judges() -> None:
    ahead = timezone.now() + AHEAD
    Observation.objects.create(component="controller", kind="controller", state="up", observed_at=ahead, up_at=ahead)
    Heartbeat.objects.create(name=Heartbeat.SENDER, at=ahead)

    def ages_s() -> list[float]:
        now = timezone.now()
        (seen,) = observations(now)
        shown, judged = present(), judged_at(now)
        assert seen.up_at and shown.judged_at and judged
        times = (seen.observed_at, seen.up_at, shown.judged_at, judged)
        return [(now - at).total_seconds() for at in times] + [figures(now).sender_age_s or 0.0]

    eventually(lambda: min(ages_s()) > LITTLE.total_seconds(), ages_s)
