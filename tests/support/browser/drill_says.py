"""Holds what pages of the screen and texts of pages say during a drill against what was injected."""

import re
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.support.browser.console import EXPECTED, leave_picture
from tests.support.browser.drill import DRILLS, Down, Drill
from tests.support.browser.pages import THEMES
from tests.support.deploy.outage import broken, page_of, since_of
from tests.support.deploy.run import Run
from tests.support.incidents.pagerduty import PagerDuty

SINCE_WITHIN_S = 10.0
NAMED_WITHIN_MS = 10_000
PATIENCE_S = 300.0
PATIENCE_MS = PATIENCE_S * 1000
PROCESSES = ("Gateway", "Redis", "Telemetry", "Worker", "Controller")
UP = re.compile(r"^●\s*up$")


def told_of(stand_in: PagerDuty, component: str, at: float, severity: str = "critical") -> tuple[str, dict[str, Any]]:
    """The key and the payload of what PagerDuty was sent."""
    asked = (stand_in, (component,), at, severity)
    assert stand_in.wait(lambda it: page_of(*asked) is not None, PATIENCE_S), f"nobody was told of {component}"
    found = page_of(*asked)
    assert found is not None
    return found


def the_alerts_link_leads_to_the_cause(page: Page, stand_in: PagerDuty, drill: Drill, key: str) -> None:
    """Without a click: who was woken has it on the screen that opens."""
    open_alert(page, stand_in, key)
    expect(page.locator(".blame")).to_contain_text(re.compile(drill.cause), timeout=NAMED_WITHIN_MS)


def open_alert(page: Page, stand_in: PagerDuty, key: str) -> None:
    event = next(event for action, event in stand_in.alert(key).taken if action == "trigger")
    page.goto(event["client_url"])


def text_says(payload: dict[str, Any], drill: Drill, down: Down, at: float) -> str:
    """The clock time since when, as the text has it: the pages must say the same."""
    summary = payload["summary"]
    assert summary.startswith(f"{down.name} {drill.says} since "), summary
    assert abs(since_of(summary, at) - at) <= SINCE_WITHIN_S, summary
    assert re.search(drill.cause, summary), summary
    for said in (drill.effect, drill.resolves):
        assert said in summary, summary
    found = re.search(r"since (\d\d:\d\d:\d\d UTC)", summary)
    assert found
    return found[1]


def overview_says(page: Page, drill: Drill, sinces: dict[str, str]) -> None:
    page.goto("/")
    banner = page.get_by_role("region", name="Open incidents")
    for down in drill.down:
        expect(banner).to_contain_text(f"{down.name} {drill.says} since {sinces[down.component]}")
        expect(state_of(page, down)).to_have_text(re.compile(r"^✕\s*down$"))
    for row, said in drill.details:
        expect(page.locator(f"#row-{row}")).to_contain_text(said)
    if drill.severity == "critical":
        expect(page.locator("#open-pages")).to_contain_text(re.compile(r"[1-9]"))
    if not drill.measures:
        expect(page.get_by_role("region", name="Last 15 minutes")).to_have_count(0)
        trouble = page.locator(".trouble")
        expect(trouble).to_contain_text("requests are not measured")
        expect(trouble).not_to_contain_text("still served")
        expect(trouble).not_to_contain_text("Nothing here is lost")


def state_of(page: Page, down: Down) -> Locator:
    """The word that stands beside a component on the overview."""
    if down.row:
        return page.locator(f"#row-{down.row} > .state")
    return page.locator("article.component", has=page.get_by_role("heading", name=down.name, exact=True)).locator(
        "header .state"
    )


def objectives_say_no_more_than_is_known(page: Page, drill: Drill) -> None:
    """What cannot be judged is unknown, and that is said first."""
    if not drill.measures:
        page.goto("/objectives")
        expect(page.locator("h1.sentence")).to_have_text(
            re.compile(r"^○ 1 of \d+ objectives?\s+is unknown(; \d+ disabled)?\s*$"), timeout=PATIENCE_MS
        )


def incidents_list_says(page: Page, drill: Drill, down: Down, since: str) -> None:
    page.goto("/incidents")
    expect(page.locator(".sentence")).to_contain_text("open page" if drill.severity == "critical" else "ticket")
    expect(page.locator(".sentence")).not_to_contain_text("Nothing is")
    expect(link_to(page, drill, down, since)).to_be_visible()


def incident_says(page: Page, drill: Drill, down: Down, since: str) -> None:
    link_to(page, drill, down, since).click()
    expect(page.locator(".summary .sentence")).to_have_text(f"{down.name} {drill.says} since {since}")
    expect(page.locator(".blame")).to_contain_text(re.compile(drill.cause))
    expect(page.locator(".blame")).to_contain_text(drill.effect)
    expect(page.locator(".facts")).to_contain_text(drill.resolves)
    expect(page.locator(".badges")).to_contain_text("firing")
    expect(page.locator(".summary .notified")).to_contain_text("Delivered to stand-in")


def incident_says_that_it_is_over(page: Page, drill: Drill, down: Down, since: str) -> None:
    """On the page that was left open, which nobody reloads."""
    expect(page.locator(".badges")).to_contain_text("resolved by", timeout=PATIENCE_MS)
    expect(page.locator(".summary .sentence")).to_have_text(
        re.compile(rf"up again since \d\d:\d\d:\d\d UTC; it .* from {since}$")
    )
    expect(page.locator(".facts")).not_to_contain_text(drill.resolves)


def overview_says_that_it_is_over(page: Page, drill: Drill) -> None:
    page.goto("/")
    for name in PROCESSES:
        expect(state_of(page, Down("", name))).to_have_text(UP, timeout=PATIENCE_MS)
    for down in drill.down:
        expect(state_of(page, down)).to_have_text(UP, timeout=PATIENCE_MS)
        expect(page.get_by_role("link", name=re.compile(f"^{re.escape(down.name)} "))).to_have_count(0)


def list_says_that_it_is_over(page: Page, drill: Drill) -> None:
    page.goto("/incidents?status=resolved")
    for down in drill.down:
        expect(page.locator("tr", has_text=f"{down.name} ").first).to_contain_text("resolved")
    page.goto("/incidents")
    for down in drill.down:
        expect(page.get_by_role("link", name=re.compile(f"^{re.escape(down.name)} "))).to_have_count(0)


def link_to(page: Page, drill: Drill, down: Down, since: str) -> Locator:
    return page.get_by_role("link", name=f"{down.name} {drill.says} since {since}", exact=True)


def shoot(page: Page, name: str) -> None:
    """Leave pictures in build/screenshots, light and dark."""
    for theme in THEMES:
        page.emulate_media(color_scheme=theme)
        leave_picture(page, f"{name}-{theme}", full_page=True)


def objective_says(page: Page, stand_in: PagerDuty, component: str, at: float, measured: str, blame: str) -> None:
    """Holds the text of an objective's page, and the screen that its link opens, against what was injected."""
    key, payload = told_of(stand_in, component, at)
    late = "stage and segment not known \\(the store did not answer within 5 s\\)[^;]*"  # a page does not wait for it
    assert re.match(
        f"({measured}.*; {blame}|.* times too fast .*; {late}); .*no owner; no runbook$", payload["summary"]
    ), payload
    open_alert(page, stand_in, key)
    expect(page.locator(".blame")).to_have_text(re.compile(rf"^{blame}\.$"), timeout=NAMED_WITHIN_MS)
    expect(page.locator(".summary .sentence")).to_have_text(re.compile(f"^{measured}"))
    expect(page.locator(".badges")).to_contain_text("firing")
    expect(page.locator(".summary .notified")).to_contain_text("Delivered to stand-in")


def told_and_shown(page: Page, run: Run, stand_in: PagerDuty, name: str) -> None:
    """Injects a fault, holds what is sent and shown against it, and mends it again."""
    drill = DRILLS[name]
    EXPECTED[id(page)] = drill.complaints
    with broken(run, drill.fault) as at:
        told = {one.component: told_of(stand_in, one.component, at, drill.severity) for one in drill.down}
        sinces = {one.component: text_says(told[one.component][1], drill, one, at) for one in drill.down}
        for key, _ in told.values():
            the_alerts_link_leads_to_the_cause(page, stand_in, drill, key)
        overview_says(page, drill, sinces)
        shoot(page, f"drill-{name.replace(' ', '-').lower()}-overview")
        objectives_say_no_more_than_is_known(page, drill)
        for one in drill.down:
            incidents_list_says(page, drill, one, sinces[one.component])
            incident_says(page, drill, one, sinces[one.component])
        shoot(page, f"drill-{name.replace(' ', '-').lower()}-incident")
    one = drill.down[-1]
    incident_says_that_it_is_over(page, drill, one, sinces[one.component])
    for key, _ in told.values():
        assert stand_in.wait(lambda it, key=key: it.alert(key).state == "resolved", PATIENCE_S)
    overview_says_that_it_is_over(page, drill)
    list_says_that_it_is_over(page, drill)
