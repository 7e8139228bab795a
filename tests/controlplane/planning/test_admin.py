"""What planners enter, who may, and what a wrong value is answered."""

from datetime import UTC, datetime
from html import unescape

import pytest
from django.core.exceptions import ValidationError
from django.test import Client

from controlplane.fleet.models import Region
from controlplane.planning.models import (
    GpuType,
    PlannedEvent,
    PlanSettings,
    PoolCapacity,
    RegionCalendar,
    ReplicaCapacityEntry,
)

pytestmark = pytest.mark.django_db(transaction=True)
ADMIN = "/admin/planning"


def event(**values: str) -> dict[str, str]:
    return {
        "name": "Launch of search",
        "kind": "launch",
        "enabled": "on",
        "start_0": "2026-12-03",
        "start_1": "09:00:00",
        "duration_s": "86400",
        "expected_factor": "2",
        **values,
    }


def test_an_event_has_its_maker_and_becomes_a_value(owner: Client) -> None:
    response = owner.post(f"{ADMIN}/plannedevent/add/", event(model="chat-large"))
    assert response.status_code == 302, unescape(response.content.decode())
    row = PlannedEvent.objects.get()
    value = row.to_event()
    assert (row.author, value.factor, value.end_s - value.start_s) == ("olga", 2.0, 86_400)
    assert row.concerns("chat-large", "premium", "eu")
    assert not row.concerns("chat-small", "premium", "eu")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [("duration_s", "1", "greater than or equal to 300"), ("expected_factor", "0", "greater than or equal to 0.01")],
)
def test_a_wrong_event_is_answered_at_its_field(owner: Client, field: str, value: str, message: str) -> None:
    response = owner.post(f"{ADMIN}/plannedevent/add/", event(**{field: value}))
    assert message in unescape(response.content.decode())
    assert not PlannedEvent.objects.exists()


@pytest.mark.parametrize(
    ("field", "values", "message"),
    [
        ("country", {"country": "XX"}, "'XX'"),
        ("zone", {"zone": "Mars/Phobos"}, "'Mars/Phobos'"),
        ("subdivision", {"country": "DE", "subdivision": "ZZ"}, "'ZZ'"),
    ],
)
def test_a_calendar_that_cannot_be_is_refused_with_the_remedy(field: str, values: dict[str, str], message: str) -> None:
    row = RegionCalendar(region=Region.objects.create(name="eu"), **values)
    with pytest.raises(ValidationError) as refused:
        row.full_clean()
    assert message in refused.value.message_dict[field][0]
    assert "give" in refused.value.message_dict[field][0]


def test_a_capacity_needs_both_means_of_tokens_or_neither() -> None:
    entry = ReplicaCapacityEntry(
        pool=PoolCapacity(), gpu_type=GpuType(name="h100"), requests_per_s=2.0, input_tokens=500.0
    )
    with pytest.raises(ValidationError, match="Give the mean of both"):
        entry.clean()


def test_the_settings_of_the_plan_are_one_row() -> None:
    assert PlanSettings.current().level == 0.9
    PlanSettings(level=0.95).save()
    PlanSettings(level=0.8).save()
    assert [row.level for row in PlanSettings.objects.all()] == [0.8]


def test_events_of_one_name_and_start_have_names_of_their_own_in_files_whichever_are_deleted() -> None:
    def planned() -> PlannedEvent:
        start = datetime(2026, 12, 1, tzinfo=UTC)
        return PlannedEvent.objects.create(name="Launch", kind="launch", start=start, duration_s=600, expected_factor=2)

    assert [planned().slug for _ in range(3)] == [
        "launch-20261201-0000",
        "launch-20261201-0000-2",
        "launch-20261201-0000-3",
    ]
    PlannedEvent.objects.get(slug="launch-20261201-0000-2").delete()
    assert planned().slug == "launch-20261201-0000-2"
