"""A drill: parts of the running system are stopped one after the other, and what the pages and the page's text say is held against that.

The tests of this file share one run; each waits until what it broke is up again.
"""

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.support import need
from tests.support.browser.console import EXPECTED, SCREENSHOTS
from tests.support.browser.drill import DRILLS, SETTINGS, Down, Drill
from tests.support.deploy.outage import broken, groups_of, in_shell, page_of, running, since_of
from tests.support.deploy.run import Run
from tests.support.incidents.pagerduty import CONTRACT, PagerDuty

SINCE_WITHIN_S = 10.0
NAMED_WITHIN_MS = 10_000
PATIENCE_S = 300.0
PATIENCE_MS = PATIENCE_S * 1000
PROCESSES = ("Gateway", "Redis", "Telemetry", "Worker", "Controller")
UP = re.compile(r"^●\s*up$")


@dataclass(frozen=True, slots=True)
class System:
    """As the fixtures of a browser know a site."""

    run: Run

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.run.web}"


@pytest.fixture(autouse=True)
def recent() -> None:
    """Nothing is written into this system's store but by itself."""


@pytest.fixture(scope="module")
def stand_in(shared_dir: Path) -> Iterator[PagerDuty]:
    with PagerDuty(shared_dir / CONTRACT) as stand_in:
        yield stand_in
        assert stand_in.violations == []


@pytest.fixture(scope="module")
def site(stand_in: PagerDuty, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    need.chromium()
    with running(tmp_path_factory.mktemp("drill"), stand_in, good_s=0, **SETTINGS) as run:
        yield System(run)


@pytest.fixture(scope="module")
def session(browser: Browser, site: System) -> Path:
    """Cookies of someone who logged in by the form."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{site.url}/")
    page.get_by_label("Username").fill("admin")
    page.get_by_label("Password").fill((site.run.home / "admin-password").read_text().strip())
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Processes")).to_be_visible()
    state = site.run.home / "browser-session.json"
    context.storage_state(path=state)
    context.close()
    return state


FULL = """
from controlplane.fleet.models import Pool
from controlplane.fleet.publish import publish
Pool.objects.update(max_concurrency={places}, max_queue={waiting})
publish()
"""


def test_a_full_queue_is_given_as_the_reason_of_what_failed(page: Page, site: System) -> None:
    """First in this file: nothing else has failed in the last 15 minutes."""
    in_shell(site.run, FULL.format(places=1, waiting=0))
    try:
        page.goto("/")
        errors = page.locator("a.number", has_text="errors")
        expect(errors).to_contain_text("queue_full (429) in queue", timeout=PATIENCE_MS)
        for down in ("chat-large-local", "chat-small-local"):
            expect(page.locator(f"#row-pool{down}")).to_contain_text("2 of 2 replicas up")
        errors.click()
        row = page.locator("[data-row]", has_text="rejected in queue").first
        row.locator("[data-open-row]").click()
        expect(page.locator("main")).to_contain_text("queue_full in queue")
    finally:
        in_shell(site.run, FULL.format(places=64, waiting=256))


TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
MISTAKES = {
    "a client's bad parameters": ({"tools": [TOOL]}, "Hello", "unsupported_parameter", "gateway"),
    "long prompts": ({}, "word " * 40_000, "context_length_exceeded", "tokenizer"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_what_clients_do_wrong_is_named_within_three_clicks(page: Page, site: System, name: str) -> None:
    more, text, error, stage = MISTAKES[name]
    for _ in range(3):
        assert ask(site.run, text, **more) == 400
    page.goto("/")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Latency", exact=True).click()
    reason = page.locator(".failed a", has_text=f"{error} (400) in {stage}")
    expect(reason).to_be_visible(timeout=PATIENCE_MS)
    reason.click()
    rows = page.locator("tr[data-row]")
    expect(rows).to_have_count(3)
    if stage == "tokenizer":
        expect(rows.first).to_contain_text(re.compile(r"≥ 3\d.\d{3}"))
    rows.first.locator("[data-open-row]").click()
    expect(page.locator("main")).to_contain_text(f"{error} in {stage}")
    page.goto("/incidents")
    expect(page.locator("main")).not_to_contain_text(error)


def ask(run: Run, text: str, **more: object) -> int:
    """The status of an answer to the demo's tenant."""
    key = (run.home / "gateway-key").read_text().strip()
    body = {"model": "chat-small", "messages": [{"role": "user", "content": text}], "max_tokens": 8, **more}
    with closing(HTTPConnection("127.0.0.1", run.gateway, timeout=PATIENCE_S)) as connection:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        return connection.getresponse().status


@pytest.mark.soak
def test_a_slow_replica_is_what_sets_slow_requests_apart(page: Page, site: System) -> None:
    with slowed(site.run, "service.instance.id=chat-small-local-1"):
        page.goto("/")
        page.get_by_role("navigation", name="Pages").get_by_role("link", name="Latency", exact=True).click()
        page.locator("select[name=model]").select_option("chat-small")
        found = page.locator("#explain .findings li").first
        expect(found).to_contain_text("chat-small-local-1", timeout=PATIENCE_MS)


@contextmanager
def slowed(run: Run, command: str) -> Iterator[None]:
    """Processes with these words in their command stand still for three quarters of the time."""
    groups, over = groups_of(run, command), Event()

    def stutter() -> None:
        while not over.wait(0.2):
            for each in (signal.SIGSTOP, signal.SIGCONT):
                for group in groups:
                    os.killpg(group, each)
                over.wait(0.6 if each is signal.SIGSTOP else 0)

    thread = Thread(target=stutter)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize(
    "name", [name if name == "gateway gone" else pytest.param(name, marks=pytest.mark.soak) for name in DRILLS]
)
def test_pages_and_the_pages_text_say_what_is_down_and_that_it_is_up_again(
    page: Page, site: System, stand_in: PagerDuty, name: str
) -> None:
    drill = DRILLS[name]
    EXPECTED[id(page)] = drill.complaints
    with broken(site.run, drill.fault) as at:
        told = {one.component: told_of(stand_in, drill, one, at) for one in drill.down}
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


def told_of(stand_in: PagerDuty, drill: Drill, down: Down, at: float) -> tuple[str, dict[str, Any]]:
    """The key and the payload of what PagerDuty was sent."""
    asked = (stand_in, (down.component,), at, drill.severity)
    assert stand_in.wait(lambda it: page_of(*asked) is not None, PATIENCE_S), f"nobody was told of {down.component}"
    found = page_of(*asked)
    assert found is not None
    return found


def the_alerts_link_leads_to_the_cause(page: Page, stand_in: PagerDuty, drill: Drill, key: str) -> None:
    """Without a click: who was woken has it on the screen that opens."""
    event = next(event for action, event in stand_in.alert(key).taken if action == "trigger")
    page.goto(event["client_url"])
    expect(page.locator(".blame")).to_contain_text(re.compile(drill.cause), timeout=NAMED_WITHIN_MS)


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
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    for theme in ("dark", "light"):
        page.emulate_media(color_scheme=theme)
        page.screenshot(path=SCREENSHOTS / f"{name}-{theme}.png", full_page=True)
