"""Purging cached answers: people ask for it in the admin and over REST, and the next snapshot says it to the gateways."""

import pytest
from django.test import Client

from controlplane.audit.models import Entry
from controlplane.fleet.models import LLMModel, Tenant, Tier
from controlplane.fleet.snapshot_values import fleet_values

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _fleet() -> None:
    LLMModel.objects.create(name="chat")
    Tenant.objects.create(name="acme", tier=Tier.objects.create(name="gold", priority=1))


def purge(client: Client, **what: str) -> tuple[int, dict[str, object]]:
    answer = client.post("/api/v1/cache/purge", what, content_type="application/json")
    return answer.status_code, answer.json()


def test_each_purge_is_another_number_in_the_snapshot_and_in_the_audit(owner: Client) -> None:
    assert [purge(owner, model="chat"), purge(owner, model="chat"), purge(owner, tenant="acme")] == [
        (200, {"purges": 1}), (200, {"purges": 2}), (200, {"purges": 1}),
    ]  # fmt: skip
    newest = Entry.objects.filter(kind="fleet.llmmodel", action="changed").first()
    assert newest is not None
    assert newest.after == {"cache_purges": 2}
    values = fleet_values()
    assert [model.cache.purges for model in values.models] == [2]
    assert [tenant.cache_purges for tenant in values.tenants] == [1]


def test_the_admin_does_it_for_those_that_are_chosen(owner: Client) -> None:
    for kind, row in (("llmmodel", LLMModel.objects.get()), ("tenant", Tenant.objects.get())):
        page = owner.post(f"/admin/fleet/{kind}/", {"action": "purge", "_selected_action": [row.pk]}, follow=True)
        assert f"cached for {row} until now" in page.content.decode()
        assert type(row)._default_manager.get().cache_purges == 1


@pytest.mark.parametrize(
    ("what", "status"),
    [({}, 409), ({"model": "chat", "tenant": "acme"}, 409), ({"model": "other"}, 409), ({"pool": "x"}, 422)],
)
def test_what_cannot_be_purged_is_said(owner: Client, what: dict[str, str], status: int) -> None:
    assert purge(owner, **what)[0] == status
