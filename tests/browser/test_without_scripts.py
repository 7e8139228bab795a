"""What a reader sees whose browser runs no scripts."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.support.browser.site import Site


@pytest.mark.parametrize("path", ["/latency", "/cache", "/objectives/chat-large-ttft"])
def test_a_chart_says_that_it_needs_scripts_and_where_its_figures_are(
    browser: Browser, session: Path, site: Site, path: str
) -> None:
    context = browser.new_context(base_url=site.url, storage_state=session, java_script_enabled=False)
    page = context.new_page()
    page.goto(path)
    said = page.locator("#chart").inner_text()
    assert said.strip() == "This chart needs JavaScript. Its figures are also in a table on this page."
    expect(page.get_by_role("button", name="Save the chart as PNG")).to_be_hidden()
    lines = page.locator("main").inner_text().split("\n")
    assert not [line for line in lines if line.endswith("…")], "nothing says that it is coming"
    context.close()


def test_what_comes_later_is_behind_links(browser: Browser, session: Path, site: Site) -> None:
    context = browser.new_context(base_url=site.url, storage_state=session, java_script_enabled=False)
    page = context.new_page()
    page.goto("/latency?from=now-5m")
    page.get_by_text("The same as a table").click()
    page.get_by_role("link", name="The chart as a table").click()
    expect(page.get_by_role("table")).to_be_visible()
    page.goto("/objectives/chat-large-ttft")
    page.get_by_role("link", name="What uses the error budget").click()
    expect(page.get_by_role("table").first).to_be_visible()
    context.close()
