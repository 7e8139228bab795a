"""Issuers of tokens that an administrator enters are in the snapshot; what would let others make tokens is refused."""

from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from controlplane.fleet.models import Tenant, Tier, TokenIssuer
from inference.contract import snapshot
from tests.support.stored_pool import stored_pool

pytestmark = pytest.mark.django_db(transaction=True)

FORM = {
    "name": "login",
    "enabled": "on",
    "issuer": "https://login.example.com",
    "audience": "weir",
    "jwks_url": "https://login.example.com/keys",
    "algorithms": ["RS256", "EdDSA"],
    "tenant_claim": "org",
}


@pytest.fixture
def acme(home: Path) -> Tenant:
    with transaction.atomic():
        stored_pool()
        tiers = [Tier.objects.create(name=name) for name in ("gold", "bulk")]
        tenant = Tenant.objects.create(name="acme", tier=tiers[0])
        tenant.token_tiers.add(tiers[1])
    return tenant


def enter(client: Client, **changes: Any) -> Any:
    return client.post("/admin/fleet/tokenissuer/add/", FORM | changes)


def in_force(home: Path) -> snapshot.Snapshot:
    return snapshot.check((home / "snapshot.json").read_bytes()).snapshot


def test_an_issuer_is_in_the_snapshot_while_it_is_enabled(admin_client: Client, acme: Tenant, home: Path) -> None:
    assert enter(admin_client, tenants=[acme.pk]).status_code == 302
    (issuer,), (tenant,) = in_force(home).issuers, in_force(home).tenants
    assert (issuer.issuer, issuer.tenant_claim, issuer.algorithms) == (FORM["issuer"], "org", ("RS256", "EdDSA"))
    assert (issuer.tenants, issuer.all_tenants, tenant.tiers) == (("acme",), False, ("bulk",))
    TokenIssuer.objects.get().delete()
    assert in_force(home).issuers == ()


def test_an_issuer_whose_only_tenant_is_deleted_speaks_for_none(admin_client: Client, acme: Tenant, home: Path) -> None:
    enter(admin_client, tenants=[acme.pk])
    acme.delete()
    (issuer,) = in_force(home).issuers
    assert (issuer.tenants, issuer.all_tenants) == ((), False)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"jwks_url": "http://login.example.com/keys"}, "use https"),
        ({"jwks_url": "https://169.254.169.254/keys"}, "link-local"),
        ({"algorithms": ["HS256"]}, "HS256"),
        ({"algorithms": []}, "required"),
        ({"audience": ""}, "required"),
    ],
)
def test_what_would_let_others_make_tokens_is_refused(
    admin_client: Client, acme: Tenant, changes: dict[str, Any], why: str
) -> None:
    assert why in enter(admin_client, **changes).content.decode()
    assert not TokenIssuer.objects.exists()
