"""The pages of policies and decisions, as a person uses them: where things stand, why, and what is paused."""

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import pages
from tests.support.browser.console import leave_picture
from tests.support.browser.site import Site

TICK = """
from django.utils import timezone
from controlplane.fleet.models import Observation
Observation.objects.filter(component="policies").update(observed_at=timezone.now())
"""


pytestmark = pytest.mark.usefixtures("decided")


def test_the_keyboard_leads_to_the_record_of_a_decision_which_decides_the_same_again(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("g")
    page.keyboard.press("e")
    page.wait_for_url("**/decisions")
    pages.drawn(page)
    leave_picture(page, "decisions-chart")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/decisions/*")
    leave_picture(page, "decision")
    page.get_by_role("button", name="Decide again from this record").click()
    expect(page.get_by_text("the same decision, byte for byte")).to_be_visible()


def test_a_marker_under_the_latency_opens_its_record(page: Page) -> None:
    page.goto("/decisions?kind=ladder")
    pages.drawn(page)
    x, y = page.evaluate(
        """() => {
          const chart = document.getElementById("chart"), { left, top } = chart.getBoundingClientRect();
          const trace = chart.data.find((each) => each.customdata), layout = chart._fullLayout;
          return [left + layout.xaxis._offset + layout.xaxis.d2p(trace.x[0]), top + layout.yaxis2._offset + layout.yaxis2.d2p(trace.y[0])];
        }"""
    )
    page.mouse.move(x - 3, y)
    page.mouse.move(x, y)
    page.mouse.click(x, y)
    page.wait_for_url("**/decisions/*")
    expect(page.locator(".sentence")).to_contain_text("chat-large for")


def test_a_pause_is_made_and_ended_and_stands_on_the_page_of_policies(page: Page, site: Site) -> None:
    site.shell(TICK)
    page.goto("/pauses")
    form = page.get_by_role("form", name="Pause", exact=True)
    form.get_by_label("what").select_option("pool:chat-large-local")
    form.get_by_label("reason").fill("Rack 3 is being rewired")
    form.get_by_role("button", name="Pause it").click()
    expect(page.locator(".sentence")).to_contain_text("1 pause in force")
    page.goto("/policies")
    expect(page.get_by_text("1 paused")).to_be_visible()
    page.goto("/pauses")
    page.get_by_role("button", name="End now").click()
    expect(page.locator(".sentence")).to_contain_text("Nothing is paused or overridden")
