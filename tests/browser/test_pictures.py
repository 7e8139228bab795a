"""The pictures of docs/, of the running system: `make docs-images` renews them. Look at those of both schemes and of a phone
in build/screenshots."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import pages
from tests.support.browser.burning import BURN, JUDGE, QUIET, SENT
from tests.support.browser.console import ROOT, SCREENSHOTS
from tests.support.browser.site import Site

SCREENS = {
    "overview": ("/", "Last 15 minutes"),
    "latency": ("/latency", "Steady|above the median"),
    "map": ("/map", r"requests from clients to\s+models"),
    "objective": ("/objectives/chat-large-fast", "Large chat answers within 600 ms"),
    "incident": ("/incidents", "% of the burn"),
    "plan": ("/planning/plan", "GPU"),
    "policy": ("/policies/scale-chat-large-local", "revision"),
    "decisions": ("/decisions", "Decisions"),
}
"""By name of the picture: the screen, and what it says."""


@pytest.fixture
def eventful(site: Site, decided: None, planned: None) -> None:
    """A day with decisions and forecasts, whose objectives have just been judged, and an incident whose
    page was accepted."""
    site.shell(JUDGE)
    site.shell(BURN)
    site.shell(SENT)


@pytest.mark.soak
@pytest.mark.usefixtures("eventful")
def test_the_pictures_of_the_docs_show_what_they_are_of(page: Page, site: Site) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    for name, (path, says) in SCREENS.items():
        page.goto(path)
        if name == "incident":
            page.locator("a[data-open-row]", has_text="chat-large TTFT p95").click()
            page.wait_for_url("**/incidents/*")
        for theme in pages.THEMES:
            page.emulate_media(color_scheme=theme)
            for size in reversed(pages.SIZES):
                page.set_viewport_size(size)
                page.reload()
                expect(page.locator("main")).to_contain_text(re.compile(says))
                pages.settled(page)
                if page.locator("#chart").count():
                    pages.drawn(page)
                page.screenshot(
                    path=SCREENSHOTS / f"docs-{name}-{theme}-{size['width']}.png", full_page=size["width"] == 390
                )
        page.screenshot(path=ROOT / "docs" / "images" / f"{name}.png")  # in the light, wide
    site.shell(QUIET)
