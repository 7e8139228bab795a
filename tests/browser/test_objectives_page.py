"""Objectives as a person reads them: which burns, how fast, and who eats the budget."""

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import pages
from tests.support.browser.burning import JUDGE
from tests.support.browser.console import leave_picture
from tests.support.browser.site import Site


@pytest.fixture(autouse=True)
def _judged(site: Site) -> None:
    """The controller has just run."""
    site.shell(JUDGE)


def test_the_worst_comes_first_in_words_and_figures(page: Page) -> None:
    page.goto("/objectives")
    expect(page.locator("tbody tr").first).to_contain_text("burning, page")
    ours = page.locator("tbody tr", has_text="Large chat answers within 600 ms")
    expect(ours).to_contain_text("burning, page")
    expect(ours.locator(".budget")).to_contain_text("✕ gone")
    expect(page.locator("h1")).to_contain_text("burn")
    leave_picture(page, "objectives")


def test_a_page_says_how_fast_it_burns_and_who_eats_the_budget(page: Page) -> None:
    page.goto("/objectives/chat-large-fast")
    pages.drawn(page)
    expect(page.locator(".sentence")).to_contain_text("the budget is gone")
    expect(page.get_by_role("region", name="Burn rates")).to_contain_text("▲ page")
    burned = page.get_by_role("region", name="What uses the error budget")
    expect(burned).to_contain_text("requests were bad")
    expect(burned.locator(".stage").first).to_contain_text("%")
    expect(page.get_by_role("region", name="Revisions")).to_contain_text("indicator")
    expect(page.get_by_role("region", name="Planned maintenance")).to_contain_text("Driver update")
    leave_picture(page, "objective")


def test_from_the_list_by_keyboard_to_a_bad_request(page: Page) -> None:
    page.goto("/objectives")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/objectives/*")
    trace = page.get_by_role("region", name="What uses the error budget").locator("a.mono").first
    trace.click()
    page.wait_for_url("**/traces/**")
