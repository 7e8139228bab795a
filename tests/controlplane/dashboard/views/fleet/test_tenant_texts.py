"""The audit of a tenant's texts: on its page, and as JSON lines."""

import json

from django.test import Client

from controlplane.fleet.models import Tenant, Tier
from tests.support.web.served import Filled

PATH = "/api/v1/tenants/docs/texts"


def docs(*, audits: bool = True) -> None:
    Tenant.objects.create(name="docs", tier=Tier.objects.create(name="gold"), audits_texts=audits)


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


def test_the_page_shows_the_newest_where_the_tenant_asks_for_it(admin_client: Client, served: Filled) -> None:
    docs()
    page = admin_client.get("/tenants/docs", served.range).content.decode()
    newest = max(served.of(tenant="docs"), key=lambda row: row.entry_start_ns)
    assert f'title="{newest.prompt_hash}"' in page and "docs/cards masked" in page and PATH in page
    Tenant.objects.update(audits_texts=False)
    assert "Audit of texts" not in admin_client.get("/tenants/docs", served.range).content.decode()
