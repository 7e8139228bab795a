"""The pages of planners, as a person uses them: a forecast, the plan, what-ifs, the worksheet, and a job's progress."""

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import pages
from tests.support.browser.site import Site

JOB = "from tests.support.planning import stored; stored.running_job()"
END = "from controlplane.planning.models import PlanJob; PlanJob.objects.update(state='done', ended_at='2026-11-22T07:00:00Z')"


pytestmark = pytest.mark.usefixtures("planned")


def test_the_keyboard_leads_to_a_series_and_back(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("g")
    page.keyboard.press("p")
    page.wait_for_url("**/planning")
    pages.drawn(page)
    pages.mark(page)
    for _ in range(2):
        page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**model=chat-large**")
    expect(page.locator(".sentence strong").first).to_have_text("chat-large, standard, us")
    page.go_back()
    expect(page.locator(".sentence strong").first).to_have_text("chat-small, standard, eu")
    pages.not_reloaded(page)


def test_a_scenario_of_the_form_stands_beside_the_others_and_can_be_removed(page: Page) -> None:
    page.goto("/planning/what-if")
    page.get_by_label("peak ×").fill("3")
    page.get_by_role("button", name="Add scenario").click()
    expect(page.get_by_role("columnheader", name="peak × 3")).to_be_visible()
    assert "scenario=peak%3D3" in page.url
    page.get_by_role("link", name="peak × 2").click()
    expect(page.get_by_role("columnheader", name="peak × 2")).to_have_count(0)


def test_a_jobs_progress_is_live_and_its_end_renews_the_page(page: Page, site: Site) -> None:
    site.shell(JOB)
    page.goto("/planning")
    pages.drawn(page)
    expect(page.get_by_role("progressbar")).to_be_visible()
    site.shell(END)
    expect(page.get_by_role("progressbar")).to_have_count(0)
    pages.drawn(page, 2)
    expect(page.get_by_role("button", name="Renew all forecasts now")).to_be_visible()
