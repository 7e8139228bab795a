"""The admin in a browser: its scripts run under our policy, and a secret is shown once."""

from playwright.sync_api import Page, expect

from tests.support.browser.console import leave_picture


def test_the_fleet_is_listed_and_a_pool_can_be_edited(page: Page) -> None:
    page.goto("/admin/")
    expect(page.get_by_role("link", name="Pools").first).to_be_visible()
    leave_picture(page, "admin")
    page.goto("/admin/fleet/pool/")
    page.set_viewport_size({"width": 1200, "height": 900})
    listed, filters = (
        page.locator("#changelist .results").bounding_box(),
        page.locator("#changelist-filter").bounding_box(),
    )
    assert listed and filters and listed["x"] + listed["width"] <= filters["x"], "the filters cover columns"
    page.set_viewport_size({"width": 390, "height": 844})
    shown = "cell => parseFloat(getComputedStyle(cell).paddingLeft) + parseFloat(getComputedStyle(cell, '::before').marginLeft)"
    assert page.locator("td.field-max_queue").first.evaluate(shown) >= 0, (
        "the name of a card's figure lies beside the card"
    )
    page.set_viewport_size({"width": 1440, "height": 900})
    page.get_by_role("link", name="chat-large-local").first.click()
    queue = page.get_by_label("Max queue")
    queue.fill("321")
    leave_picture(page, "admin-pool")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("was changed successfully")).to_be_visible()
    expect(page.locator("tr", has_text="chat-large-local")).to_contain_text("321")
