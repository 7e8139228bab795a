"""Objectives as code, and whether a draft would have paged, as an owner does it in a browser."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import pages
from tests.support.slo.openslo_files import FOREIGN, slo

Shoot = Callable[[str], None]
FILE = slo("chat-large-first", 100).replace("    weir.slo/owner: serving\n", "").replace(", tier: premium", "")
REPLAY = "/objectives/preview?saved=chat-large-ttft&windows=page+2m/1m+0.0001,+ticket+10m/5m+0.0001&from=now-1h"


def test_a_file_is_checked_corrected_and_applied(page: Page, shoot: Shoot) -> None:
    page.goto("/objectives")
    page.get_by_role("link", name="Objectives as code").click()
    text = page.get_by_label("OpenSLO documents")
    text.fill(FILE.replace("op: lte", "op: lt") + "---\n" + FOREIGN)
    page.get_by_role("button", name="Check").click()
    expect(page.locator("tr.error")).to_contain_text("write op: lte")
    expect(page.get_by_role("button", name="Apply")).to_have_count(0)
    shoot("objectives-import")
    text.fill(FILE)
    page.get_by_role("button", name="Check").click()
    expect(page.locator(".plan")).to_contain_text("chat-large-first")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Applied. 1 created.")
    page.get_by_role("link", name="chat-large-first").click()
    page.wait_for_url("**/objectives/chat-large-first")
    page.get_by_role("link", name="what it would have paged").click()
    page.wait_for_url("**/objectives/preview?saved=chat-large-first")


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


@pytest.mark.parametrize("path", ["/objectives/import", REPLAY])
def test_axe_finds_nothing_and_a_phone_suffices(page: Page, path: str) -> None:
    page.goto(path)
    page.wait_for_load_state("networkidle")
    pages.accessible(page)
    pages.fits_a_phone(page)
