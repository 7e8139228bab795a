"""Each policy revision is told once, whoever looks and however often."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from controlplane.accounts.rights import unguarded
from controlplane.fleet.files import proposals
from controlplane.fleet.models import Pool, SnapshotRevision
from controlplane.incidents.models import ChangeRecord
from controlplane.incidents.notify import changes
from controlplane.incidents.notify.delivery.models import Delivery, Destination, Endpoint
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.sli import Availability
from controlplane.slo.save import save_objective
from tests.support.entered_fleet import entered_fleet

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def hooks(db: None) -> None:
    endpoint = Endpoint.objects.create(kind="webhook", url="https://hooks.example.com/", secret="x" * 32)
    Destination.objects.create(name="hooks", kind="webhook", endpoint=endpoint)


def revised(version: int, hours_ago: float = 0, author: str = "", document: dict[str, Any] | None = None) -> None:
    made = SnapshotRevision.objects.create(
        version=version, content_sha256=str(version), text=json.dumps(document or {}), author=author
    )
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


def test_a_revision_says_who_changed_what_and_nothing_of_secrets() -> None:
    tenant = {"name": "acme", "tier": "batch", "key_sha256": ["5ec2e7"]}
    pool = {"name": "large", "max_queue": 256, "max_concurrency": 64, "headers": [{"name": "x-key", "value": "5ec2e7"}]}
    model = {"name": "chat", "routes": [{"pool": "large", "weight": 100}], "cache": {"mode": "always", "ttl_s": 60}}
    before = {"models": [model], "pools": [pool], "tenants": [tenant], "timeouts": {"queue_ms": 10_000}}
    revised(2, document=before)
    after = {
        "models": [{**model, "routes": [{"pool": "large", "weight": 0}], "cache": {"mode": "never", "ttl_s": 60}}],
        "pools": [{**pool, "max_queue": 0, "headers": []}, {"name": "spare"}],
        "tenants": [{**tenant, "key_sha256": []}],
        "timeouts": {"queue_ms": 1},
    }
    revised(3, author="ann", document=after)
    changes.announce(timezone.now())
    assert told()[-1] == (
        "policy revision 3 by ann: model chat: routes.large 100 → 0, cache.mode always → never; "
        "pool large: max_queue 256 → 0, headers; pool spare added; 2 more"
    )


@pytest.mark.django_db(transaction=True)
def test_a_change_of_the_fleet_its_way_back_and_an_objective_are_changes(home: Path) -> None:
    """And so marks on charts: policies are in `tests/controlplane/policy/revisions/test_changes_of_policies.py`."""
    entered_fleet()
    pool = Pool.objects.get(name="chat-eu")
    pool.weight = 70
    pool.save()
    back = proposals.bring_back(1, who="ann")
    proposals.take("activate", back.pk, "ann", unguarded)
    changes.announce(timezone.now())
    first = Objective("chat", "Chat answers", Availability(), 0.999, {"model": "chat"}, owner="serving")
    for target in (0.999, 0.99, 0.99):
        save_objective(replace(first, target=target), who="ann")
    assert told() == [
        "policy revision 2: model chat: routes.chat-eu 100 → 70",
        "policy revision 3: model chat: routes.chat-eu 70 → 100",
        "objective chat, revision 2 by ann: target",
    ]
    marked = ChangeRecord.objects.get(source="objectives")
    assert (marked.team, marked.scope) == ("serving", {"model": "chat"})


def test_what_a_canary_wrote_is_no_change_of_a_person() -> None:
    revised(2, author="Weir, canary try-new")
    changes.announce(timezone.now())
    assert told() == []


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
