"""Policies in the admin in a browser: the editor checks while one writes."""

from playwright.sync_api import Page, expect

from tests.support.browser.console import leave_picture


def test_a_policy_is_checked_while_it_is_written(page: Page) -> None:
    page.goto("/admin/policy/policyrevision/add/?kind=Scaling")
    editor = page.locator("#id_text")
    expect(page.get_by_text("✓ Nothing to correct.")).to_be_visible()
    text = editor.input_value()
    editor.fill(text.replace("max: 4", "max: -4").replace("forecast: auto", "forecasts: auto"))
    expect(page.locator("div[role=status]")).to_contain_text("spec.max is -4")
    expect(page.locator("div[role=status]")).to_contain_text("spec.forecasts is not known")
    leave_picture(page, "admin-policy-errors")
    page.get_by_role("button", name="line 8").click()
    assert editor.evaluate("field => field.value.slice(0, field.selectionStart).split('\\n').length") == 8
