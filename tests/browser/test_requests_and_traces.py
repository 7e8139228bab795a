"""From the list of the slowest to where one of them spent its time."""

from playwright.sync_api import Page, expect

from tests.support.browser.console import leave_picture


def test_the_slowest_request_opens_as_a_waterfall_with_its_ledger(page: Page) -> None:
    page.goto("/requests")
    leave_picture(page, "requests")
    page.get_by_role("link", name="slowest first").click()
    page.wait_for_url("**order=slowest")
    # A click on a row that is replaced meanwhile leads nowhere.
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    page.locator("tr[data-row]").first.click()
    page.wait_for_url("**/traces/*")
    expect(page.locator(".span.on-path").first).to_be_visible()
    leave_picture(page, "trace")
    parts = page.locator(".ledger tbody tr:not(.part) td:nth-child(2)").all_inner_texts()
    total = page.locator(".ledger tfoot td").first.inner_text()

    def ns(text: str) -> int:
        return int("".join(character for character in text if character.isdigit()))

    assert sum(map(ns, parts)) == ns(total), "the ledger on the page does not close"


def test_stages_have_the_colour_of_the_latency_page(page: Page) -> None:
    page.goto("/latency")
    stages = {
        row.locator("th").inner_text().strip(): row.locator(".swatch rect").evaluate(
            "one => getComputedStyle(one).fill"
        )
        for row in page.locator(".by-stage tr").all()
    }
    page.goto("/requests")
    page.locator("tr[data-row]").first.click()
    page.wait_for_url("**/traces/*")
    for row in page.locator(".ledger tbody tr:not(.part)").all():
        assert (
            row.locator(".swatch rect").evaluate("one => getComputedStyle(one).fill")
            == stages[row.locator("th").inner_text().strip()]
        )


def test_j_k_and_enter_walk_the_list(page: Page) -> None:
    page.goto("/requests")
    second = page.locator("tr[data-row] a[data-open-row]").nth(1).get_attribute("href") or "?"
    for key in ("j", "j", "j", "k"):
        page.keyboard.press(key)
    expect(page.locator("tr[data-row]").nth(1)).to_have_class("at")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{second.split('#')[0].split('?')[0]}**")


def test_j_walks_the_spans_and_enter_opens_one(page: Page) -> None:
    page.goto("/requests")
    page.locator("tr[data-row]").first.click()
    page.wait_for_url("**/traces/*")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator(".span[open]")).to_have_count(1)
