"""The signals page, as a person uses it: a search, a metric's chart, its table, zooming, narrowing."""

from playwright.sync_api import Page, expect

from tests.support.browser import pages
from tests.support.browser.console import leave_picture

METRIC = "/signals?metric=nv_inference_request_success"


def test_a_search_leads_to_a_chart_and_back(page: Page) -> None:
    page.goto("/signals")
    pages.mark(page)
    page.get_by_role("searchbox", name="metric").fill("request success")
    page.keyboard.press("Enter")
    page.wait_for_url("**text=request+success**")
    expect(page.get_by_role("region", name="Metrics")).to_contain_text("request success")
    page.get_by_role("link", name="nv_inference_request_success").click()
    pages.drawn(page)
    expect(page.locator(".sentence")).to_contain_text("counter")
    leave_picture(page, "signal")
    page.evaluate("""document.getElementById("chart").data[0].name = '=HYPERLINK("x")'""")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save the chart as CSV").click()
    text = saved.value.path().read_text()
    assert text.startswith("series,x,y,value\n") and '"\'=HYPERLINK(""x"")",2' in text, "no formula of a spreadsheet"
    page.get_by_text("The chart as a table").click()
    expect(page.get_by_text("began again", exact=True).first).to_be_visible()
    page.go_back()
    expect(page.get_by_role("region", name="Metrics")).to_contain_text("request success")
    pages.not_reloaded(page)


def test_a_drag_zooms_and_the_table_stays_open(page: Page) -> None:
    page.goto(METRIC)
    pages.drawn(page)
    page.get_by_text("The chart as a table").click()
    drawn = pages.times_drawn(page)
    pages.drag(page, 0.2, 0.6)
    pages.drawn(page, drawn + 1)
    assert 200 < pages.length_s(pages.query(page)) < 500
    expect(page.get_by_role("region", name="Figures by step")).to_be_visible()


def test_a_counter_can_be_seen_as_it_is_and_narrowed_to_one_series(page: Page) -> None:
    page.goto(METRIC)
    pages.drawn(page)
    page.get_by_role("link", name="value", exact=True).click()
    expect(page.locator("p.muted").first).to_contain_text("Value, in steps of")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("a.match").first).to_be_visible()
    assert page.locator("table.list tbody tr").count() == 1
    page.locator("a.match", has_text="instance").click()
    expect(page.locator("a.match", has_text="instance")).to_have_count(0)


def test_it_asks_again_by_itself_and_keeps_what_is_open(page: Page) -> None:
    page.goto(METRIC)
    pages.drawn(page)
    page.get_by_text("The chart as a table").click()
    pages.drawn(page, 2)
    expect(page.get_by_role("region", name="Figures by step")).to_be_visible()
