"""The latency page as a person uses it."""

import time

import pytest
from playwright.sync_api import Page, Route, WebSocketRoute, expect

from tests.support.browser import pages
from tests.support.browser.console import expect_status, leave_picture
from tests.support.browser.site import Site


def test_it_says_which_stage_is_slow_and_what_is_different_before_anything_is_touched(page: Page) -> None:
    pages.open_latency(page)
    sentence = page.locator(".sentence").inner_text()
    assert sentence.startswith("p95")
    assert "of the time above the median is" in sentence
    assert any(stage in sentence for stage in ("queue", "model"))
    expect(page.locator(".stages tr.cause")).to_have_count(1)
    leave_picture(page, "latency")
    page.get_by_text("The same as a table").click()
    assert page.locator("#behind-rows tbody tr").first.inner_text()
    expect(page.locator("#behind-rows thead")).to_contain_text("TTFT gateway")
    panel = page.locator("#explain")
    expect(panel.locator(".lead")).to_contain_text("above p95")
    expect(panel.locator(".findings li").first).to_contain_text("chat-large")
    expect(panel.locator(".findings li").first.locator("svg.swatch")).to_have_count(1)
    panel.scroll_into_view_if_needed()
    leave_picture(page, "explain")
    page.locator("select[name=model]").select_option("chat-small")
    expect(panel).not_to_contain_text("chat-large")


def test_choosing_a_model_changes_the_url_and_the_figures_without_a_reload(page: Page) -> None:
    pages.open_latency(page)
    pages.mark(page)
    before = pages.requests_shown(page)
    page.locator("select[name=model]").select_option("chat-large")
    page.wait_for_url("**model=chat-large**")
    pages.drawn(page, 2)
    assert 0 < pages.requests_shown(page) < before
    assert "(chat-large)" in page.locator(".sentence").inner_text()
    expect(page.locator("select[name=model]")).to_have_value("chat-large")
    pages.not_reloaded(page)
    leave_picture(page, "latency-filtered")


def test_figures_of_other_filters_are_dimmed_and_a_second_click_keeps_the_first(page: Page) -> None:
    pages.open_latency(page)
    held: list[Route] = []
    page.route("**/latency?**", lambda route: held.append(route))
    page.locator("select[name=model]").select_option("chat-large")
    expect(page.locator("section.headline")).to_have_css("opacity", "0.4")
    expect(page.locator("figure.chart")).to_have_css("opacity", "0.4")
    expect(page.locator("#filters")).to_have_css("opacity", "1")
    leave_picture(page, "latency-loading")
    page.get_by_role("link", name="1h", exact=True).click()
    page.keyboard.press("3")
    page.locator("select[name=tier]").select_option("premium")
    asked = pages.query(page)
    assert {name: asked[name] for name in ("model", "from", "q", "tier")} == {
        "model": "chat-large", "from": "now-1h", "q": "p99", "tier": "premium",
    }  # fmt: skip
    expect(page.locator("section.headline")).to_have_css("opacity", "0.4")
    while "tier=premium" not in held[-1].request.url:
        page.evaluate("0")  # requests reach `held` while something is awaited
    for route in reversed(held):  # the answer to what was asked last comes first
        route.continue_()
    expect(page.locator("section.headline")).to_have_css("opacity", "1", timeout=60_000)
    expect(page.locator(".sentence")).to_contain_text("p99")
    expect(page.locator("select[name=tier]")).to_have_value("premium")
    expect(page.locator("select[name=model]")).to_have_value("chat-large")


def test_dragging_zooms_and_the_back_button_undoes_it_and_a_double_click_widens(page: Page) -> None:
    pages.open_latency(page)
    pages.mark(page)
    before = pages.requests_shown(page)
    pages.drag(page, 0.6, 0.9)
    page.wait_for_url("**from=20**")
    pages.drawn(page, 2)
    zoomed = pages.query(page)
    assert 200 < pages.length_s(zoomed) < 340, "30 % of a quarter of an hour"
    assert 0 < pages.requests_shown(page) < before
    expect(page.locator(".freshness .word")).to_have_text("fixed range")
    leave_picture(page, "latency-zoomed")
    drawn = pages.times_drawn(page)
    page.go_back()
    pages.drawn(page, drawn + 1)
    assert "from" not in pages.query(page)
    expect(page.locator(".freshness")).to_have_attribute("data-live", "1")
    pages.not_reloaded(page)
    page.locator("#chart .nsewdrag").first.dblclick()
    page.wait_for_url("**from=now-**")
    assert pages.query(page)["from"] == "now-30m"


def test_new_requests_appear_without_a_reload_and_the_page_stays_where_it_was(page: Page, site: Site) -> None:
    pages.open_latency(page)
    pages.mark(page)
    pages.linked(page)
    page.wait_for_function(
        "() => document.documentElement.scrollHeight - innerHeight >= 120"
    )  # its later parts are there
    page.evaluate("scrollTo(0, 120)")
    before = pages.requests_shown(page)
    site.arrive(40, 5, seed=11)
    page.wait_for_function(
        "before => Number(document.querySelector('.headline p.muted').textContent.split('request')[0].replace(/\\D/g, '')) > before",
        arg=before,
    )
    pages.drawn(page, 2)
    pages.not_reloaded(page)
    assert page.evaluate("scrollY") == 120


def test_a_zoomed_page_does_not_move_when_new_requests_arrive(page: Page, site: Site) -> None:
    now = time.time()
    pages.open_latency(page, f"?from={now - 600:.0f}&to={now - 300:.0f}")
    before = page.locator(".stages").inner_html()
    beside = page.context.new_page()
    pages.open_latency(beside)
    pages.linked(beside)
    site.arrive(5, 2, seed=12)
    expect(beside.locator("#data[data-renewed]")).to_have_count(1)
    assert page.locator(".stages").inner_html() == before
    assert pages.times_drawn(page) == 1


def test_without_a_live_link_it_says_so_and_asks_by_itself(page: Page, site: Site) -> None:
    def refuse(socket: WebSocketRoute) -> None:
        socket.close()

    page.route_web_socket("**/live", refuse)
    page.clock.install()
    pages.open_latency(page)
    page.clock.run_for(2000)
    expect(page.locator(".freshness .link")).to_contain_text("no live link")
    drawn = pages.times_drawn(page)
    page.clock.run_for(11_000)
    pages.drawn(page, drawn + 1)


@pytest.mark.usefixtures("just_now")
def test_data_that_grows_old_is_called_stale_and_is_not_green(page: Page) -> None:
    page.clock.install()
    pages.open_latency(page)
    expect(page.locator(".freshness")).not_to_have_class("freshness stale")
    page.context.set_offline(True)
    page.clock.fast_forward(20 * 60 * 1000)
    expect(page.locator(".freshness")).to_have_class("freshness stale")
    assert "20" in page.locator(".freshness .age").inner_text()
    good = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--good').trim()")
    assert page.locator(".freshness .word").evaluate("element => getComputedStyle(element).color") != good
    leave_picture(page, "latency-stale")
    page.context.set_offline(False)


@pytest.mark.usefixtures("just_now")
def test_clicking_a_bar_opens_its_requests(page: Page) -> None:
    pages.open_latency(page)
    box = page.locator("#chart .nsewdrag").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + box["height"] * 0.95)
    page.mouse.click(box["x"] + box["width"] * 0.7, box["y"] + box["height"] * 0.95)
    page.wait_for_url("**/requests?**")
    found = pages.query(page)
    assert 0 < pages.length_s(found) <= 15
    assert page.locator("tr[data-row]").count() > 0


def test_a_range_without_requests_and_a_time_that_cannot_be_read_say_what_to_do(page: Page) -> None:
    expect_status(page, 400)
    pages.open_latency(page, "?model=nobody")
    expect(page.locator(".empty")).to_contain_text("Lift the filters")
    leave_picture(page, "latency-empty")
    page.get_by_role("link", name="Lift the filters").first.click()
    pages.drawn(page, 2)
    assert pages.requests_shown(page) > 0
    page.locator("input[name=from]").fill("yesterday")
    page.locator("input[name=from]").press("Enter")
    expect(page.locator(".trouble")).to_contain_text("now-15m")
    leave_picture(page, "latency-bad-time")


@pytest.mark.usefixtures("just_now")
def test_a_region_dragged_over_the_heatmap_is_explained_and_is_in_the_url(page: Page) -> None:
    pages.open_latency(page)
    pages.mark(page)
    page.get_by_role("link", name="heatmap", exact=True).click()
    page.wait_for_url("**view=heatmap**")
    pages.drawn(page, 2)
    box = page.locator("#chart .nsewdrag").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + box["height"] * 0.05)
    page.mouse.down()
    for part in range(1, 6):
        along = 0.2 * part / 5
        page.mouse.move(box["x"] + box["width"] * (0.7 + along), box["y"] + box["height"] * (0.05 + along))
    page.mouse.up()
    page.wait_for_url("**region_from=**")
    asked = pages.query(page)
    assert {"region_from", "region_to", "e2e_from_ms", "e2e_to_ms", "view"} <= set(asked)
    expect(page.locator("#explain h2")).to_have_text("What is different about these?")
    expect(page.locator("#explain .findings li").first).to_contain_text("chat-large")
    pages.not_reloaded(page)
    leave_picture(page, "heatmap")
    page.get_by_role("link", name="Lift the region").click()
    expect(page.locator("#explain h2")).to_have_text("What is different about the slow ones?")
    assert pages.query(page)["view"] == "heatmap"


def test_a_calendar_and_a_drag_across_the_chart_are_of_the_zone_that_is_shown(page: Page) -> None:
    pages.open_latency(page, "?tz=Asia/Kolkata&from=now-1h")
    page.locator("details.pick summary").click()
    page.locator("[name=from_at]").fill("2026-11-20T05:30")
    page.locator("[name=to_at]").fill("2026-11-20T06:30")
    page.get_by_role("button", name="Show", exact=True).click()
    page.wait_for_url("**from=2026-11-20T00:00:00Z&to=2026-11-20T01:00:00Z**")
    pages.drawn(page, 2)
    pages.drag(page, 0.25, 0.75)
    page.wait_for_url(lambda url: "from=2026-11-20T00:00:00Z" not in url)
    asked = pages.query(page)
    assert asked["from"].startswith("2026-11-20T00:1") and asked["to"].startswith("2026-11-20T00:4"), asked
    assert asked["tz"] == "Asia/Kolkata"
