"""On call: incidents as a person meets them, by mouse and by keyboard."""

import json
import re
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser.burning import BURN, QUIET
from tests.support.browser.console import leave_picture
from tests.support.browser.pages import accessible, linked
from tests.support.browser.site import Site

TAKES_WARNINGS = """
from tests.support.incidents.notices import pagerduty
pagerduty("tickets only", severities=["warning"])
"""


@pytest.fixture
def burning(site: Site) -> Iterator[None]:
    """A page, a ticket, and one that is silenced."""
    site.shell(BURN)
    yield
    site.shell(QUIET)


@pytest.mark.usefixtures("just_now", "burning")
def test_the_list_and_an_incident_can_be_read(page: Page) -> None:
    page.goto("/incidents")
    expect(page.locator(".sentence")).to_contain_text("1 open page, 1 with nobody on it, 1 ticket, 1 not sent")
    expect(page.locator("tr", has_text="premium chat-large E2E")).to_contain_text("silenced by tom")
    expect(page.locator("#open-pages")).to_contain_text("1")
    leave_picture(page, "incidents")
    page.get_by_role("link", name=re.compile("^chat-large TTFT p95 is")).click()
    expect(page.locator(".blame")).to_contain_text(re.compile("% of the burn is queue time .*since policy revision 14"))
    leave_picture(page, "incident", full_page=True)
    page.goto("/silences")
    leave_picture(page, "silences")
    page.goto("/")
    expect(page.get_by_role("link", name="2 open incidents")).to_be_visible()
    leave_picture(page, "overview-with-incidents")


@pytest.mark.usefixtures("burning")
def test_by_keyboard_from_anywhere_to_an_acknowledged_page(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("g")
    page.keyboard.press("i")
    page.wait_for_url("**/incidents")
    page.keyboard.press("j")
    page.keyboard.press("a")
    expect(page.get_by_role("status").first).to_contain_text("acknowledged.")
    expect(page.locator("tr[data-row]", has_text="chat-large TTFT")).to_contain_text("acknowledged")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/incidents/*")
    page.keyboard.press("s")
    page.wait_for_url("**/silences?matcher=objective%3Dchat-ttft**")
    expect(page.locator("select[name=objective]")).to_have_value("chat-ttft")
    expect(page.locator("select[name=model]")).to_have_value("chat-large")


@pytest.mark.usefixtures("burning")
def test_resolving_asks_can_be_declined_and_undone_by_keyboard_alone(page: Page) -> None:
    page.goto("/incidents")
    row = page.locator("tr[data-row]", has_text="chat-large TTFT")
    page.keyboard.press("j")
    page.keyboard.press("x")
    asked = page.get_by_role("dialog", name=re.compile("^Resolve #"))
    expect(asked).to_be_visible()
    expect(asked).to_contain_text("If it fires after that, or after it was quiet in between, a new incident opens.")
    expect(asked.get_by_label("What ended it")).to_have_value("")
    expect(asked.get_by_label("What ended it")).to_be_focused()
    leave_picture(page, "resolve")
    accessible(page)
    page.keyboard.press("Escape")
    expect(asked).to_be_hidden()
    expect(row).to_be_visible()
    page.keyboard.press("x")
    page.keyboard.type("rolled back")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").first).to_contain_text("resolved.")
    expect(row).to_be_hidden()
    leave_picture(page, "resolved")
    page.keyboard.press("u")
    page.wait_for_url("**/incidents/*")
    expect(page.locator(".badges")).to_contain_text("open")
    expect(page.locator(".timeline")).to_contain_text("resolved by admin rolled back")
    expect(page.locator(".timeline")).to_contain_text("opened again")
    page.get_by_role("button", name=re.compile("^Resolve")).click()
    page.get_by_role("dialog").get_by_role("button", name="Resolve").click()
    expect(page.locator(".summary")).to_contain_text("It still fired when admin resolved it.")
    expect(page.locator(".summary")).to_contain_text("Queued for on call since")
    leave_picture(page, "incident-resolved", full_page=True)
    accessible(page)


def test_a_page_that_no_destination_takes_has_a_banner_on_every_page_and_a_silence_lifts_it(
    page: Page, site: Site
) -> None:
    site.shell(TAKES_WARNINGS)
    try:
        site.shell(BURN)
        page.goto("/deliveries")
        expect(page.get_by_role("alert")).to_contain_text("Nobody was notified of 1 open page")
        expect(page.get_by_role("alert")).to_contain_text("no enabled destination takes critical pages")
        leave_picture(page, "deliveries-not-notified")
        accessible(page)
        page.goto("/incidents")
        page.set_viewport_size({"width": 390, "height": 844})
        height_px = page.get_by_role("alert").evaluate("banner => banner.offsetHeight")
        assert height_px < 80, "it leaves the phone's screen to the incidents"
        page.set_viewport_size({"width": 1440, "height": 900})
        page.get_by_role("alert").locator("summary").click()
        leave_picture(page, "incidents-not-notified")
        linked(page)
        site.announce(0, 0)
        expect(page.locator("#data[data-renewed]")).to_have_count(1)
        page.get_by_role("alert").get_by_role("link", name=re.compile("^#")).click()
        page.wait_for_url("**/incidents/*")
        expect(page.locator(".summary")).to_contain_text(
            "Nobody was notified: no enabled destination takes critical pages"
        )
        leave_picture(page, "incident-not-notified", full_page=True)
        accessible(page)
        page.keyboard.press("s")
        page.wait_for_url("**/silences?**")
        page.get_by_label("Reason").fill("load test")
        page.get_by_role("button", name="Silence", exact=True).click()
        page.wait_for_url("**/incidents/*")
        expect(page.locator(".summary")).to_contain_text("Nobody is notified: silenced by admin until")
        expect(page.get_by_role("alert")).to_have_count(0)
        leave_picture(page, "incident-silenced")
    finally:
        site.shell(QUIET)


@pytest.mark.usefixtures("burning")
def test_a_note_appears_in_the_timeline_and_a_half_written_one_survives_a_refresh(page: Page, site: Site) -> None:
    page.goto("/incidents")
    page.get_by_role("link", name=re.compile("^chat-large TTFT")).click()
    page.get_by_role("textbox", name="Note").fill("restarted replica 1")
    page.get_by_role("button", name="Add to the timeline").click()
    expect(page.locator(".timeline")).to_contain_text("restarted replica 1")
    page.get_by_role("textbox", name="Note").fill("half a thou")
    linked(page)
    site.announce(0, 0)
    expect(page.locator("#data[data-renewed]")).to_have_count(1)
    expect(page.get_by_role("textbox", name="Note")).to_have_value("half a thou")
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.locator(".incident table[role=table]").first).to_be_visible()
    wider = "all => all.filter(each => each.scrollWidth > each.clientWidth).map(each => each.ariaLabel)"
    assert page.locator(".incident .scroll").evaluate_all(wider) == [], "on a phone nothing is cut off"
    leave_picture(page, "incident-390", full_page=True)
    accessible(page)


def test_the_list_shows_a_new_incident_without_a_reload(page: Page, site: Site) -> None:
    page.goto("/incidents")
    expect(page.locator(".sentence")).to_contain_text("Nothing is known to be open")
    page.evaluate("window.stillTheSamePage = true")
    site.shell(BURN)
    try:
        expect(page.locator(".sentence")).to_contain_text("1 open page")
        expect(page.locator("#open-pages")).to_be_visible()
        assert page.evaluate("window.stillTheSamePage")
    finally:
        site.shell(QUIET)


@pytest.mark.usefixtures("burning")
def test_every_link_of_the_page_that_is_sent_opens(page: Page, site: Site) -> None:
    request = urllib.request.Request(f"{site.url}/api/v1/incidents", headers={"Authorization": f"Bearer {site.token}"})
    with urllib.request.urlopen(request) as answer:
        sent: list[dict[str, Any]] = [one for one in json.load(answer)["incidents"] if one["severity"] == "page"]
    told = next(one for one in sent if not one["withheld"])
    ours = [link["href"] for link in told["links"] if link["href"].startswith(site.url)]
    assert len(ours) >= 5
    for href in ours:
        answered = page.goto(href)
        assert answered is not None
        assert answered.status == 200
        assert "/login" not in page.url
