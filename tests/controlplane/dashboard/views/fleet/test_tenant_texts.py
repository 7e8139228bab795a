"""The audit of a tenant's texts: on its page, and as JSON lines."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlplane.accounts.models import TenantMembership
from controlplane.dashboard.views.traces import facts
from controlplane.fleet.models import Tenant, Tier
from controlplane.fleet.snapshot_values import fleet_values
from controlplane.telemetry.query import answers
from tests.support.web.served import Filled

pytestmark = pytest.mark.django_db
PATH = "/api/v1/tenants/docs/texts"


def docs() -> None:
    Tenant.objects.create(name="docs", tier=Tier.objects.create(name="gold"), audits_texts=True)


def test_the_switch_reaches_gateways() -> None:
    docs()
    Tenant.objects.create(name="search", tier=Tier.objects.get())
    assert {tenant.name: tenant.audits_texts for tenant in fleet_values().tenants} == {"docs": True, "search": False}


def test_each_request_of_the_tenant_is_a_line_with_hashes_sizes_and_tokens(caller: Client, served: Filled) -> None:
    docs()
    Tenant.objects.create(name="search", tier=Tier.objects.get())
    lines = [json.loads(line) for line in caller.get(PATH, served.range).getvalue().splitlines()]
    rows = {row.request_id: row for row in served.of(tenant="docs")}
    assert {line["request_id"] for line in lines} == rows.keys() and len(lines) == len(rows) > 0
    for line in lines:
        row = rows[line["request_id"]]
        for name in (
            "prompt_hash",
            "prompt_bytes",
            "prompt_tokens",
            "answer_hash",
            "answer_bytes",
            "output_tokens",
            "guard",
        ):
            assert line[name] == getattr(row, name)
        assert (line["answer_bytes"] is None) == (line["answer_hash"] == "") == (row.status == "error")
    assert caller.get("/api/v1/tenants/search/texts", served.range).getvalue() == b""
    [prompt] = {row.prompt_hash for row in rows.values()}
    found = caller.get(
        "/api/v1/requests", {**served.range, "attribute": f"weir.audit.prompt={prompt}", "limit": "1000"}
    )
    assert {row["request_id"] for row in found.json()["rows"]} == rows.keys()


def test_people_of_the_tenant_have_its_lines_and_no_others(client: Client, served: Filled) -> None:
    docs()
    Tenant.objects.create(name="search", tier=Tier.objects.get(), audits_texts=True)
    rita = User.objects.create_user("rita")
    TenantMembership.objects.create(user=rita, tenant=Tenant.objects.get(name="docs"))
    client.force_login(rita)
    assert {line["tenant"] for line in map(json.loads, client.get(PATH, served.range).getvalue().splitlines())} == {
        "docs"
    }
    assert client.get("/api/v1/tenants/search/texts", served.range).status_code == 403


def test_the_page_shows_the_newest_where_the_tenant_asks_for_it(admin_client: Client, served: Filled) -> None:
    docs()
    page = admin_client.get("/tenants/docs", served.range).content.decode()
    newest = max(served.of(tenant="docs"), key=lambda row: row.entry_start_ns)
    assert f'title="{newest.prompt_hash}"' in page and "docs/cards masked" in page and PATH in page
    Tenant.objects.update(audits_texts=False)
    assert "Audit of texts" not in admin_client.get("/tenants/docs", served.range).content.decode()


def test_the_hash_of_a_part_is_not_shown_as_that_of_the_whole(
    admin_client: Client, served: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs()
    whole = next(row for row in served.of(tenant="docs") if row.answer_hash)
    left = replace(whole, status="cancelled", error_type="client_disconnected")
    assert whole.status == "ok"
    for row, is_part in ((whole, False), (left, True)):
        monkeypatch.setattr(answers, "requests", lambda *_, row=row: SimpleNamespace(rows=[row]))
        page = admin_client.get("/tenants/docs", served.range).content.decode()
        assert f'title="{row.answer_hash}"' in page
        assert ("of what was sent: cancelled client_disconnected" in page) == is_part
        names = {name for name, value in facts(row) if row.answer_hash in value}
        assert names == {"hash of what was sent" if is_part else "answer hash"}
