"""Rules of a tenant that an administrator enters are in the snapshot; what gateways could not obey is refused."""

from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from controlplane.fleet.models import GuardRule, Tenant, Tier
from inference.contract import snapshot
from tests.support.stored_pool import stored_pool

pytestmark = pytest.mark.django_db(transaction=True)

FORM = {
    "name": "cards", "enabled": "on", "kind": "patterns", "patterns": ["card", "mail"], "action": "mask", "requests": "on",
    "max_chars": "0", "timeout_ms": "1000",
}  # fmt: skip


@pytest.fixture
def acme(home: Path) -> Tenant:
    with transaction.atomic():
        stored_pool()
        return Tenant.objects.create(name="acme", tier=Tier.objects.create(name="gold"))


def test_a_rule_is_in_the_snapshot_under_its_tenants_name(admin_client: Client, acme: Tenant, home: Path) -> None:
    sent = FORM | {"tenant": acme.pk, "tiers": [acme.tier.pk], "answers": "on"}
    assert admin_client.post("/admin/fleet/guardrule/add/", sent).status_code == 302
    checked = snapshot.check((home / "snapshot.json").read_bytes())
    (rule,) = checked.snapshot.guards
    assert (rule.name, rule.tenant, rule.patterns, rule.tiers) == ("acme/cards", "acme", ("card", "mail"), ("gold",))
    assert (rule.action, rule.requests, rule.answers, checked.faults) == ("mask", True, True, ())


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"patterns": []}, "needs it"),
        ({"kind": "length"}, "needs it"),
        ({"kind": "length", "max_chars": "5"}, "Only patterns can be masked"),
        ({"kind": "moderation", "action": "refuse", "url": "http://moderation.example.com/"}, "use https"),
        ({"kind": "moderation", "action": "refuse", "url": "https://169.254.169.254/"}, "link-local"),
        ({"requests": ""}, "neither requests nor answers"),
    ],
)
def test_a_rule_that_cannot_be_obeyed_is_refused(
    admin_client: Client, acme: Tenant, changes: dict[str, Any], why: str
) -> None:
    page = admin_client.post("/admin/fleet/guardrule/add/", FORM | {"tenant": acme.pk} | changes)
    assert why in page.content.decode() and not GuardRule.objects.exists()
