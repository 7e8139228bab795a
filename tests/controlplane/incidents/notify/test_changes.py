"""Each policy revision is told once, whoever looks and however often."""

from datetime import timedelta

import pytest
from django.utils import timezone

from controlplane.fleet.models import SnapshotRevision
from controlplane.incidents.models import ChangeRecord
from controlplane.incidents.notify import changes
from controlplane.incidents.notify.delivery.models import Delivery, Destination, Endpoint

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def hooks(db: None) -> None:
    endpoint = Endpoint.objects.create(kind="webhook", url="https://hooks.example.com/", secret="x" * 32)
    Destination.objects.create(name="hooks", kind="webhook", endpoint=endpoint)


def revised(version: int, hours_ago: float = 0) -> None:
    made = SnapshotRevision.objects.create(version=version, content_sha256=str(version), text="{}")
    at = timezone.now() - timedelta(hours=hours_ago)
    SnapshotRevision.objects.filter(pk=made.pk).update(created_at=at)


def told() -> list[str]:
    return [one.notice["summary"] for one in Delivery.objects.filter(action="change").order_by("id")]


def test_a_revision_is_told_once() -> None:
    for version in (2, 3):
        revised(version)
        for _ in range(3):
            changes.announce(timezone.now())
    assert told() == ["policy revision 2", "policy revision 3"]


def test_the_revision_of_the_first_start_is_no_change() -> None:
    revised(1)
    changes.announce(timezone.now())
    assert told() == []
    assert not ChangeRecord.objects.exists()


def test_revisions_from_before_anybody_listened_are_remembered_and_not_told() -> None:
    revised(2, hours_ago=30)
    revised(3, hours_ago=2)
    revised(4)
    changes.announce(timezone.now())
    assert told() == ["policy revision 4"]
    assert ChangeRecord.objects.count() == 3


def test_revisions_of_one_moment_are_all_told() -> None:
    revised(2)
    changes.announce(timezone.now())
    for version in (3, 4):
        revised(version)
    same = SnapshotRevision.objects.get(version=2).created_at
    SnapshotRevision.objects.update(created_at=same)
    changes.announce(timezone.now())
    assert sorted(told()) == ["policy revision 2", "policy revision 3", "policy revision 4"]


def test_with_nothing_new_a_tick_asks_little(django_assert_max_num_queries: object) -> None:
    revised(2)
    changes.announce(timezone.now())
    with django_assert_max_num_queries(4):  # type: ignore[operator]
        changes.announce(timezone.now())
