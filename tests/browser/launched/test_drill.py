"""A drill: parts of the running system are stopped one after the other, and what the pages and the page's text say is held against that.

The tests of this file share one run; each waits until what it broke is up again. In `make test`, test_run.py takes the
gateway away.
"""

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from http.client import HTTPConnection
from threading import Event, Thread

import pytest
from playwright.sync_api import Page, expect

from tests.support import need
from tests.support.browser.drill import BAD_CANARY, DRILLS, FAILED_OVER, SETTINGS, SMALL_DOWN
from tests.support.browser.drill_says import (
    NAMED_WITHIN_MS,
    PATIENCE_MS,
    PATIENCE_S,
    incident_says,
    incident_says_that_it_is_over,
    incidents_list_says,
    objective_says,
    shoot,
    text_says,
    the_alerts_link_leads_to_the_cause,
    told_and_shown,
    told_of,
)
from tests.support.browser.harm import CANARY, FAILOVER, edit_pool, failing_candidate, in_force, spare_pool
from tests.support.deploy.outage import broken, groups_of, in_shell, running
from tests.support.deploy.run import Run
from tests.support.incidents.pagerduty import PagerDuty

MINUTE = r"\d\d:\d\d UTC"
pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def run(stand_in: PagerDuty, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    need.chromium()
    with running(tmp_path_factory.mktemp("drill"), stand_in, good_s=0, **SETTINGS) as run:
        yield run


FULL = """
from controlplane.fleet.models import Pool
from controlplane.fleet.publish import publish
Pool.objects.update(max_concurrency={places}, max_queue={waiting})
publish()
"""


def test_a_full_queue_is_given_as_the_reason_of_what_failed(page: Page, run: Run) -> None:
    """First in this file: nothing else has failed in the last 15 minutes."""
    in_shell(run, FULL.format(places=1, waiting=0))
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
        in_shell(run, FULL.format(places=64, waiting=256))


TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
MISTAKES = (
    ({"tools": [TOOL]}, "Hello", "unsupported_parameter", "gateway"),
    ({}, "word " * 40_000, "context_length_exceeded", "tokenizer"),
)


def test_what_clients_do_wrong_is_named_within_three_clicks(page: Page, run: Run) -> None:
    """All of it at first, so that it is waited for once."""
    for more, text, _, _ in MISTAKES:
        assert [ask(run, text, **more) for _ in range(3)] == [400] * 3
    for _, _, error, stage in MISTAKES:
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


def test_a_slow_replica_is_what_sets_slow_requests_apart(page: Page, run: Run) -> None:
    with slowed(run, "service.instance.id=chat-small-local-1"):
        page.goto("/")
        page.get_by_role("navigation", name="Pages").get_by_role("link", name="Latency", exact=True).click()
        page.locator("select[name=model]").select_option("chat-small")
        found = page.locator("#explain .findings li").first
        expect(found).to_contain_text("chat-small-local-1", timeout=PATIENCE_MS)


def test_a_revision_that_does_harm_is_named_with_its_author_and_what_it_changed(
    page: Page, run: Run, stand_in: PagerDuty
) -> None:
    with objective(run, "chat-large-answered", model="chat-large"):
        at = time.time()
        edit_pool(page, "chat-large-local", max_concurrency=1, max_queue=0)
        try:
            said = (
                r"\d+ % of the failures are 429 queue_full in queue.* in pool chat-large-local, since policy revision \d+ by admin: "
                rf"pool chat-large-local: max_concurrency 64 → 1, max_queue 256 → 0 \({MINUTE}\)"
            )
            objective_says(
                page, stand_in, "chat-large", at, r"chat-large availability is [\d.]+ % against 99.9 %", said
            )
            shoot(page, "drill-bad-revision-incident")
            change = page.locator("[aria-labelledby=segments] li").first
            expect(change).to_contain_text(
                re.compile(r"policy revision \d+ by admin: pool chat-large-local: max_concurrency 64 → 1")
            )
            expect(page.locator("[aria-labelledby=acted]")).to_contain_text(
                "No policy has changed anything of it since"
            )
            expect(page.get_by_role("table", name="Errors").locator("tbody tr").first).to_contain_text(
                "429 queue_full in queue"
            )
        finally:
            edit_pool(page, "chat-large-local", max_concurrency=64, max_queue=256)


def test_a_bad_canary_is_rolled_back_and_named_to_whom_it_concerns(page: Page, run: Run, stand_in: PagerDuty) -> None:
    with failing_candidate(run) as server, objective(run, "next-answered", pool="chat-small-next"):
        at = time.time()
        with in_force(page, "Canary", CANARY):
            told = told_of(stand_in, BAD_CANARY.down[0].component, at, BAD_CANARY.severity)
            served = len(server.bodies)
            ended = run.get("decisions?kind=canary&limit=1")["changes"][0]
            assert ended["reason"].startswith("small-next: 50 % → rolled back"), ended
            since = text_says(told[1], BAD_CANARY, BAD_CANARY.down[0], datetime.fromisoformat(ended["at"]).timestamp())
            the_alerts_link_leads_to_the_cause(page, stand_in, BAD_CANARY, told[0])
            expect(page.locator("[aria-labelledby=acted]")).to_contain_text("small-next: 50 % → rolled back")
            shoot(page, "drill-bad-canary-incident")
            said = (
                r"(model chat-small has a canary that was not promoted since \d\d:\d\d:\d\d UTC; )?"
                r"100 % of the failures are 502 model_error in model.*, since canary small-next: not begun → 50 %: "
                rf"chat-small-next begins with 50 % of the requests \({MINUTE}\)"
            )
            objective_says(
                page, stand_in, "chat-small-next", at, r"all traffic availability in pool chat-small-next is 0 % ", said
            )
            shoot(page, "drill-bad-canary-objective")
            incidents_list_says(page, BAD_CANARY, BAD_CANARY.down[0], since)
            incident_says(page, BAD_CANARY, BAD_CANARY.down[0], since)
            assert len(server.bodies) == served, "the candidate gets no more requests"
        assert stand_in.wait(lambda it: it.alert(told[0]).state == "resolved", PATIENCE_S)


def test_a_failover_says_from_where_to_where_and_what_it_is_for(page: Page, run: Run, stand_in: PagerDuty) -> None:
    with spare_pool(run), in_force(page, "Routing", FAILOVER):
        with broken(run, SMALL_DOWN.fault) as at:
            told = {it: told_of(stand_in, it.down[0].component, at, it.severity) for it in (FAILED_OVER, SMALL_DOWN)}
            since = {drill: text_says(payload, drill, drill.down[0], at) for drill, (_, payload) in told.items()}
            assert ask(run, "Who answers?") == 200
            the_alerts_link_leads_to_the_cause(page, stand_in, FAILED_OVER, told[FAILED_OVER][0])
            shoot(page, "drill-failover-incident")
            page.get_by_role("link", name=re.compile("pool chat-small-local")).click()
            expect(page.locator(".blame")).to_contain_text(re.compile(SMALL_DOWN.cause), timeout=NAMED_WITHIN_MS)
            expect(page.locator("[aria-labelledby=acted]")).to_contain_text(
                "small-down: off → active: none of chat-small-local can serve"
            )
            shoot(page, "drill-failover-pool")
            for drill in told:
                incidents_list_says(page, drill, drill.down[0], since[drill])
                incident_says(page, drill, drill.down[0], since[drill])
        incident_says_that_it_is_over(page, SMALL_DOWN, SMALL_DOWN.down[0], since[SMALL_DOWN])
        for key, _ in told.values():
            assert stand_in.wait(lambda it, key=key: it.alert(key).state == "resolved", PATIENCE_S)


@contextmanager
def objective(run: Run, slug: str, **scope: str) -> Iterator[None]:
    """As an owner enters it over REST; deleted at the end of the block."""
    few = {"total": 3, "bad": 3}
    availability = {"slug": slug, "name": slug, "indicator": {"kind": "availability"}, "target": 0.999}
    run.post("objectives", {**availability, "scope": scope, "minimum": few})
    try:
        yield
    finally:
        run.delete(f"objectives/{slug}", 204)


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


@pytest.mark.parametrize("name", DRILLS)
def test_pages_and_the_pages_text_say_what_is_down_and_that_it_is_up_again(
    page: Page, run: Run, stand_in: PagerDuty, name: str
) -> None:
    told_and_shown(page, run, stand_in, name)
