"""What holds on every page: keyboard, themes, weight, accessibility."""

import brotli
import pytest
from playwright.sync_api import Page, Response, expect

from tests.support.browser import pages
from tests.support.browser.console import leave_picture
from tests.support.browser.site import Site


def test_a_pool_leads_to_its_latency(page: Page) -> None:
    page.goto("/")
    page.get_by_role("link", name="chat-small-local").click()
    page.wait_for_url("**/latency?**pool=chat-small-local**")


def test_g_and_a_letter_go_to_a_page(page: Page) -> None:
    page.goto("/")
    for letter, path in (("l", "/latency"), ("r", "/requests"), ("m", "/signals"), ("b", "/objectives"), ("o", "/")):
        page.keyboard.press("g")
        page.keyboard.press(letter)
        page.wait_for_url(lambda url, path=path: url.split("?")[0].endswith(path))


def test_a_question_mark_explains_the_keys(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard help")).to_be_visible()
    leave_picture(page, "help")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keyboard help")).to_be_hidden()


def test_escape_closes_a_menu_and_leaves_its_reader_where_it_was_opened(page: Page) -> None:
    page.goto("/latency")
    for menu in ("details.menu", "details.pick"):
        summary = page.locator(f"{menu} > summary")
        summary.focus()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert page.locator(menu).get_attribute("open") is not None
        page.keyboard.press("Escape")
        assert page.locator(menu).get_attribute("open") is None
        expect(summary).to_be_focused()


def test_the_chosen_theme_is_remembered_and_the_chart_follows_it(page: Page) -> None:
    pages.open_latency(page)
    ink = page.evaluate("getComputedStyle(document.body).color")
    page.get_by_role("button", name="dark and light").click()
    pages.drawn(page, 2)
    assert page.evaluate("getComputedStyle(document.body).color") != ink
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


@pytest.mark.parametrize(("path", "budget_kb"), [("/", 100), ("/requests", 100), ("/latency", 560)])
def test_a_page_weighs_no_more_than_it_may(page: Page, path: str, budget_kb: int) -> None:
    """As compressed as `manage.py collect` leaves it: brotli."""
    sizes: dict[str, int] = {}

    def weigh(response: Response) -> None:
        if response.status == 200:
            sizes[response.url] = len(brotli.compress(response.body(), quality=5))

    page.on("response", weigh)
    page.goto(path)
    page.wait_for_load_state("networkidle")
    assert sum(sizes.values()) <= budget_kb * 1024, sizes


def test_the_cards_of_processes_hold_their_figures(page: Page) -> None:
    page.goto("/")
    page.wait_for_load_state("networkidle")
    assert page.locator(".component").count() >= 5
    for cells, text in (  # as long as any
        (".component dt", "rejected connections"), (".component dd", "1,234 /min"), (".component .state", "◐ degraded"),
        (".component p", "HTTPConnection(host='127.0.0.1',port=31972)"),
    ):  # fmt: skip
        page.locator(cells).evaluate_all("(all, text) => all.forEach(cell => { cell.textContent = text })", text)
    wide = """cards => cards.filter(card => {
        const padding = 2 * parseFloat(getComputedStyle(card).paddingLeft)
        return card.querySelector('dl').offsetWidth > card.clientWidth - padding + 1
    }).map(card => card.innerText)"""
    for width in range(390, 1500, 30):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.locator(".component").evaluate_all(wide) == [], width


TENANTS_PERSON = """
from django.contrib.auth import get_user_model
from controlplane.accounts.models import TenantMembership
from controlplane.fleet.models import Tenant, Tier
tenant, _ = Tenant.objects.get_or_create(name="docs", defaults={"tier": Tier.objects.get_or_create(name="standard")[0]})
TenantMembership.objects.create(tenant=tenant, user=get_user_model().objects.create_user("tina", password="of-a-tenant"))
"""


def test_the_scripts_run_for_a_tenants_person_who_has_fewer_controls(page: Page, site: Site) -> None:
    """An error in them fails the test (`page`)."""
    site.shell(TENANTS_PERSON)
    page.context.clear_cookies()
    page.goto("/login")
    page.get_by_label("Username").fill("tina")
    page.get_by_label("Password").fill("of-a-tenant")
    page.get_by_role("button", name="Log in", exact=True).click()
    page.wait_for_url("**/tenants/docs")
    page.keyboard.press("Control+k")
    assert page.evaluate("typeof weir.go") == "function", "they ran to their end"


def test_the_api_documentation_needs_no_script_and_leads_to_its_schemas(page: Page) -> None:
    page.goto("/api/v1/docs#api_latency_latency")
    page.get_by_text("/api/v1/latency", exact=True).first.click()
    expect(page.get_by_role("table", name="Answers").first).to_be_visible()
    leave_picture(page, "api-docs")
