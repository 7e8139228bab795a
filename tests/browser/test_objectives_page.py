"""Objectives as a person reads them: which burns, how fast, and who eats the budget."""

import pytest
from playwright.sync_api import Page

from tests.support.browser.burning import JUDGE
from tests.support.browser.site import Site


@pytest.fixture(autouse=True)
def _judged(site: Site) -> None:
    """The controller has just run."""
    site.shell(JUDGE)


def test_from_the_list_by_keyboard_to_a_bad_request(page: Page) -> None:
    page.goto("/objectives")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/objectives/*")
    trace = page.get_by_role("region", name="What uses the error budget").locator("a.mono").first
    trace.click()
    page.wait_for_url("**/traces/**")
