"""Tasks of on-call people and planners, each within so many clicks, choices and lines typed."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page, Route, expect

from tests.support.browser import pages
from tests.support.browser.console import leave_picture


class Counted:
    """Does what a person can do to a page, and counts it."""

    def __init__(self, page: Page) -> None:
        self.page, self.clicks = page, 0

    def click(self, name: str) -> None:
        self.clicks += 1
        self.page.get_by_role("link", name=name).first.click()

    def press(self, name: str) -> None:
        self.clicks += 1
        self.page.get_by_role("button", name=name, exact=name == "Save").click()

    def choose(self, select: str, value: str) -> None:
        self.clicks += 2  # one opens the list
        self.page.locator(f"select[name={select}]").first.select_option(value)
        self.page.wait_for_url(f"**{select}={value}**")

    def write(self, field: str, text: str) -> None:
        self.clicks += 1
        self.page.locator(f"input[name={field}]:visible").fill(text)
        self.page.keyboard.press("Enter")


def test_now_is_compared_with_yesterday_and_with_another_slice(page: Page) -> None:
    pages.open_latency(page)
    person = Counted(page)
    person.click("yesterday")
    page.wait_for_url("**compare=yesterday**")
    expect(page.locator(".compared")).to_contain_text("a day earlier")
    assert person.clicks <= 2
    page.locator(".groups a", has_text="compare with chat-small").first.click()
    page.wait_for_url("**compare=model**")
    page.locator(".groups tbody th a", has_text="chat-large").first.click()
    page.wait_for_url("**model=chat-large**")
    expect(page.locator(".compared .sentence")).to_contain_text("model chat-small")
    pages.drawn(page)
    leave_picture(page, "latency-compared")


def test_failed_requests_of_a_tenant_above_4000_tokens(page: Page) -> None:
    page.goto("/requests")
    person = Counted(page)
    person.choose("tenant", "support")
    person.choose("status", "error")
    person.write("attribute", "tokens>4000")
    expect(page.locator(".filters .match")).to_contain_text("tokens >4000")
    assert person.clicks <= 6


@pytest.mark.usefixtures("planned")
def test_the_gpus_of_next_tuesday_and_their_price(page: Page) -> None:
    today = datetime.now(UTC)
    ahead = (1 - today.weekday()) % 7 or 7
    page.goto("/")
    person = Counted(page)
    person.click("Planning")
    person.click("Plan by hour")
    person.click("7 days" if ahead < 7 else "14 days")
    row = page.locator("section[aria-label=Days] tr", has_text=f"Tue {today + timedelta(days=ahead):%Y-%m-%d}")
    expect(row.locator("td").nth(1)).to_have_text(re.compile(r"[1-9]\d* × h100"))
    expect(row.locator("td").nth(3)).to_have_text(re.compile(r"[1-9].*USD"))
    assert person.clicks <= 3
    pages.drawn(page)
    leave_picture(page, "plan-by-day")


@pytest.mark.usefixtures("decided")
def test_a_policy_is_edited_and_rolled_back(page: Page) -> None:
    page.goto("/")
    person = Counted(page)
    person.click("Policies")
    person.click("ladder-chat-large")
    person.click("edit revision")
    text = page.locator("#id_text")
    before = text.input_value()
    person.clicks += 1
    text.fill(before.replace("retry_after_s: 20", "retry_after_s: 30"))
    for name in ("Save", "Activate", "Do it"):
        person.press(name)
    expect(page.get_by_text("is in force within a second.").first).to_be_visible()
    person.press("Roll back")
    expect(page.get_by_role("dialog")).to_contain_text("in force at once")
    person.press("Do it")
    expect(page.get_by_text(re.compile(r"in force within a second, with the text of"))).to_be_visible()
    assert person.clicks <= 10
    page.get_by_role("link", name="Its page").click()
    expect(page.get_by_role("region", name="Text")).to_contain_text("retry_after_s: 20")


def test_an_answer_that_comes_after_a_newer_one_is_not_shown(page: Page) -> None:
    page.goto("/requests")
    delayed: list[Route] = []
    page.route(lambda url: url.endswith("tenant=support"), lambda route: delayed.append(route))
    person = Counted(page)
    person.choose("tenant", "support")
    person.write("attribute", "tokens>4000")
    condition = page.locator(".filters .match")
    expect(condition).to_contain_text("tokens >4000")
    with page.expect_response(lambda response: response.url.endswith("tenant=support")):
        delayed[0].continue_()
    page.wait_for_load_state("networkidle")
    expect(condition).to_contain_text("tokens >4000")


def test_the_slow_stage_is_found_by_keyboard_alone(page: Page) -> None:
    page.goto("/")
    keys = ["Control+k", *"ttft", "Enter"]
    page.keyboard.press(keys[0])
    expect(page.locator("#quick-matches a").first).to_be_visible()
    page.keyboard.type("ttft")
    expect(page.locator("#quick-matches a").first).to_contain_text("Latency")
    page.keyboard.press(keys[-1])
    page.wait_for_url("**/latency**")
    expect(page.locator(".headline .stage").first).to_be_visible()
    assert len(keys) <= 20


@pytest.mark.soak  # each screen is walked in every run, by test_walk_every_page.py
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_the_screens_are_looked_at(page: Page, scheme: str, width: int) -> None:
    """Nothing is wider than the window but what scrolls by itself."""
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.set_viewport_size({"width": width, "height": 900})
    for name, path in (
        ("map", "/map"),
        ("compared", "/latency?compare=previous&by=pool"),
        ("requests", "/requests?not=model%3Dchat-small"),
        ("review", "/incidents/review"),
    ):
        page.goto(path)
        expect(page.locator("#data > *").first).to_be_visible()
        page.wait_for_load_state("networkidle")
        leave_picture(page, f"{name}-{scheme}-{width}")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1"), path
    page.goto("/map")
    page.keyboard.press("Control+k")
    expect(page.locator("#quick-matches a").first).to_be_visible()
    page.locator("#quick-text").fill("ttft")
    expect(page.locator("#quick-matches a").first).to_contain_text("Latency")
    page.wait_for_load_state("networkidle")
    leave_picture(page, f"quick-{scheme}-{width}")
