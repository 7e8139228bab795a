"""Whether a draft would have paged, as an owner sees it in a browser."""

from playwright.sync_api import Page, expect


def test_the_admin_form_leads_to_a_replay_of_what_is_in_it(page: Page) -> None:
    page.goto("/admin/slo/storedobjective/")
    page.locator("#result_list a[href*='/change/']").first.click()
    page.locator("#id_target").fill("0.875")
    with page.context.expect_page() as opened:
        page.get_by_role("button", name="Would have paged?").click()
    opened.value.wait_for_url("**/objectives/preview?saved=*&target=0.875")
    expect(opened.value.get_by_label("target")).to_have_value("0.875")
    opened.value.close()
