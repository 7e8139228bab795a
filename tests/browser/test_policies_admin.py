"""Policies in the admin in a browser: the editor checks while one writes, and the buttons take the steps."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser.site import Site

Shoot = Callable[[str], None]
TURNED = """
from controlplane.policy.models import PolicyRevision
State = PolicyRevision.State
PolicyRevision.objects.filter(name="try-fp8", state=State.{}).update(state=State.{})
"""


@pytest.fixture(autouse=True)
def no_other_canary(site: Site) -> Iterator[None]:
    """Other tests of the site have one in force for the same model, and there may be one."""
    site.shell(TURNED.format("ACTIVE", "RETIRED"))
    yield
    site.shell(TURNED.format("RETIRED", "ACTIVE"))


def test_a_policy_is_written_checked_activated_and_rolled_back(page: Page, shoot: Shoot) -> None:
    page.goto("/admin/policy/policyrevision/add/?kind=Scaling")
    editor = page.locator("#id_text")
    expect(page.get_by_text("✓ Nothing to correct.")).to_be_visible()
    text = editor.input_value()
    editor.fill(text.replace("max: 4", "max: -4").replace("forecast: auto", "forecasts: auto"))
    expect(page.locator("div[role=status]")).to_contain_text("spec.max is -4")
    expect(page.locator("div[role=status]")).to_contain_text("spec.forecasts is not known")
    shoot("admin-policy-errors")
    page.get_by_role("button", name="line 8").click()
    assert editor.evaluate("field => field.value.slice(0, field.selectionStart).split('\\n').length") == 8
    page.goto("/admin/policy/policyrevision/add/?kind=Canary")
    text = editor.input_value()
    for steps in ("[5, 25, 50]", "[10, 50]"):
        page.goto("/admin/policy/policyrevision/add/?kind=Canary")
        editor.fill(text.replace("[5, 25, 50]", steps))
        page.get_by_role("button", name="Save", exact=True).click()
        page.get_by_role("button", name="Activate").click()
        expect(page.get_by_role("dialog")).to_contain_text("In force within a second")
        page.get_by_role("button", name="Do it").click()
        expect(page.get_by_text("is in force within a second.").first).to_be_visible()
    shoot("admin-policy")
    page.get_by_role("button", name="Roll back to revision 1").click()
    page.get_by_role("button", name="Do it").click()
    expect(page.get_by_text("revision 3 is in force within a second, with the text of revision 1.")).to_be_visible()
    page.goto("/admin/policy/policyrevision/?kind__exact=Canary")
    shoot("admin-policies")
    expect(page.locator("tbody tr", has_text="Active")).to_have_count(1)
