"""Every page, also of the admin and the API, at 1440 and 390 px, light and dark: axe finds nothing, nothing scrolls sideways."""

import re
from collections.abc import Iterator

import pytest
from django.contrib import admin
from playwright.sync_api import Page

from controlplane.dashboard.urls import urlpatterns
from tests.support.browser import pages
from tests.support.browser.burning import BURN, QUIET
from tests.support.browser.console import expect_status
from tests.support.browser.site import Site

PAGES = {
    "overview": "/",
    "map": "/map",
    "cache": "/cache",
    "review": "/incidents/review",
    "begin": "/begin",
    "latency": "/latency",
    "causes": "/causes",
    "requests": "/requests",
    "signals": "/signals",
    "trace": "/requests > tr[data-row] a[data-open-row]",
    "objectives": "/objectives",
    "objective-preview": "/objectives/preview?saved=chat-large-ttft&windows=page+2m/1m+0.0001,+ticket+10m/5m+0.0001&from=now-1h",
    "objective": "/objectives/chat-large-ttft",
    "incidents": "/incidents",
    "incident": "/incidents > tr[data-row] a[data-open-row]",
    "planning": "/planning",
    "planning-plan": "/planning/plan",
    "planning-what-if": "/planning/what-if",
    "planning-worksheet": "/planning/worksheet",
    "policies": "/policies",
    "policy": "/policies/scale-chat-large-local",
    "pauses": "/pauses",
    "decisions": "/decisions",
    "decision": "/decisions > tr[data-row] a[data-open-row]",
    "audit": "/audit",
    "connections": "/connections",
    "fleet-changes": "/changes",
    "fleet-change": "/changes/1",
    "deliveries": "/deliveries",
    "batches": "/batches",
    "silences": "/silences",
    "tenants": "/tenants",
    "tenant": "/tenants/docs",
}
"""By the name of the view. After `>`: the link of that page that leads to it."""
TENANT = """
from controlplane.fleet.models import Tenant, Tier
Tenant.objects.get_or_create(name="docs", defaults={"tier": Tier.objects.get_or_create(name="standard")[0], "audits_texts": True})
"""
PARTS = {
    "latency-explain", "latency-table", "objective-burned", "quick", "live", "incident-markdown", "planning-jobs",
    "incident-acknowledge", "incident-resolve", "incident-reopen", "incident-note", "incident-step", "planning-jobs-start",
    "planning-job-cancel", "policy-step", "pause-end", "override-approve", "share", "shared", "review-markdown", "save-view", "remove-view",
    "decision-replay", "silence-end", "zone", "batch-cancel", "batch-retry",
    "fleet-bring-back", "fleet-proposal", "fleet-proposal-step",
}  # fmt: skip
"""Parts of pages, answers to forms, and text."""
OTHERS = (
    "/latency?view=heatmap", "/requests?model=nobody&compare=previous&tz=UTC", "/objectives?state=quiet&compare=yesterday",
    "/objectives/queue-by-pool",
    "/signals?metric=nv_inference_request_success", "/signals?metric=nobody", "/policies/try-fp8", "/api/v1/docs", "/admin/",
    "/admin/accounts/apitoken/add/",
    "/account", "/account/password", "/account/sessions", "/admin/policy/policyrevision/add/?kind=Scaling&as=fields", "/nowhere",
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def full(site: Site, decided: None, planned: None) -> Iterator[None]:
    """Something of everything: incidents, decisions, forecasts."""
    site.shell(BURN + TENANT)
    yield
    site.shell(QUIET)


def test_each_view_is_walked_or_is_a_part_of_one() -> None:
    assert {pattern.name for pattern in urlpatterns} == PAGES.keys() | PARTS


@pytest.mark.parametrize("path", [*PAGES.values(), *OTHERS])
def test_axe_finds_nothing_and_a_phone_suffices(page: Page, path: str) -> None:
    path, _, link = path.partition(" > ")
    if path == "/nowhere":
        expect_status(page, 404)
    if link:
        page.goto(path)
        path = str(page.locator(link).first.get_attribute("href"))
    pages.holds_for_everybody(page, path)


@pytest.mark.soak
@pytest.mark.parametrize("model", sorted(model._meta.label_lower for model in admin.site._registry))
def test_axe_finds_nothing_in_the_admin_and_a_phone_suffices(page: Page, model: str) -> None:
    """The list, the form of a new row, and the form of one that there is."""
    path = f"/admin/{model.replace('.', '/')}/"
    pages.holds_for_everybody(page, path)
    rows = page.locator("#result_list tbody th a")
    if rows.count():
        pages.holds_for_everybody(page, str(rows.first.get_attribute("href")))
    page.goto(path)
    if page.get_by_role("link", name=re.compile("^Add ")).count():
        pages.holds_for_everybody(page, f"{path}add/")


def test_axe_finds_nothing_before_one_is_logged_in(page: Page) -> None:
    page.context.clear_cookies()
    pages.holds_for_everybody(page, "/login")
