"""Whether a draft would have paged, as an owner sees it in a browser."""

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.support.browser import pages

Shoot = Callable[[str], None]
REPLAY = "/objectives/preview?saved=chat-large-ttft&windows=page+2m/1m+0.0001,+ticket+10m/5m+0.0001&from=now-1h"


def test_changed_windows_are_replayed_beside_the_saved_ones(page: Page, shoot: Shoot) -> None:
    page.goto("/objectives/preview?saved=chat-large-ttft&from=now-1h")
    pages.drawn(page)
    page.get_by_label("windows").fill("page 2m/1m 0.0001, ticket 10m/5m 0.0001")
    page.get_by_role("button", name="Replay").click()
    page.wait_for_url("**windows=page**")
    pages.drawn(page)
    expect(page.locator("table.side thead")).to_contain_text("changed")
    expect(page.locator("table.side thead")).to_contain_text("as saved")
    shoot("replay")


def test_the_admin_form_leads_to_a_replay_of_what_is_in_it(page: Page) -> None:
    page.goto("/admin/slo/storedobjective/")
    page.locator("#result_list a[href*='/change/']").first.click()
    page.locator("#id_target").fill("0.875")
    with page.context.expect_page() as opened:
        page.get_by_role("button", name="Would have paged?").click()
    opened.value.wait_for_url("**/objectives/preview?saved=*&target=0.875")
    expect(opened.value.get_by_label("target")).to_have_value("0.875")
    opened.value.close()


def test_axe_finds_nothing_and_a_phone_suffices(page: Page) -> None:
    page.goto(REPLAY)
    page.wait_for_load_state("networkidle")
