"""Chromium, logged in to a real site; every page is held to: no console error, no request to another host."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect, sync_playwright

from tests.support import need
from tests.support.browser.console import EXPECTED
from tests.support.browser.site import Site, running_site

ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
PATIENCE_MS = 30_000
expect.set_options(timeout=PATIENCE_MS)  # a busy machine is no fault of a page
PLANNED = """
from controlplane.fleet.models import Pool
from controlplane.planning.models import GpuType, PoolCapacity, ReplicaCapacityEntry
from tests.support.planning import stored
rows = stored.store_forecasts()
stored.store_record(rows[0])
gpu, _ = GpuType.objects.get_or_create(name="h100", usd_per_hour=4.2)
for pool in Pool.objects.filter(name__startswith="chat-large"):
    own = PoolCapacity.objects.create(pool=pool, gpu_type=gpu, entered_cold_start_s=240)
    ReplicaCapacityEntry.objects.create(pool=own, gpu_type=gpu, requests_per_s=2)
"""


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    need.chromium()
    with running_site(tmp_path_factory.mktemp("site")) as running:
        yield running


@pytest.fixture(autouse=True)
def recent(site: Site) -> None:
    """What the pages show is of the last quarter of an hour, however long the site is up."""
    if site.age_s() > 120:
        site.begin_again()


@pytest.fixture
def just_now(site: Site) -> None:
    """What the pages show has just happened."""
    site.begin_again()


@pytest.fixture(scope="package")
def decided(site: Site) -> None:
    """Policies and a day of their decisions."""
    site.shell("from tests.support.policy import decided; decided.store(24)")


@pytest.fixture(scope="package")
def planned(site: Site) -> None:
    """Forecasts, and what a plan of the larger model needs."""
    site.shell(PLANNED)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Not for the session: while playwright lives, its event loop is in the way of asynchronous tests."""
    executable = need.chromium()
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=str(executable), args=ARGUMENTS)
        yield running
        running.close()


@pytest.fixture(scope="package")
def session(browser: Browser, site: Site) -> Iterator[Path]:
    """Cookies of someone who logged in by the form."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{site.url}/latency?q=p99")
    page.get_by_label("Username").fill("admin")
    page.get_by_label("Password").fill(site.password)
    page.get_by_role("button", name="Log in", exact=True).click()
    page.wait_for_url("**/latency?q=p99")
    state = site.home / "browser-session.json"
    context.storage_state(path=state)
    context.close()
    yield state


@pytest.fixture(scope="module")
def context(browser: Browser, session: Path, site: Site) -> Iterator[BrowserContext]:
    """One for the pages of a file, which find in its cache what another has loaded and compiled."""
    opened = browser.new_context(
        base_url=site.url, storage_state=session, color_scheme="light", viewport={"width": 1440, "height": 900}
    )
    opened.set_default_timeout(PATIENCE_MS)
    yield opened
    opened.close()


@pytest.fixture
def page(context: BrowserContext, site: Site, session: Path) -> Iterator[Page]:
    """A tab; afterwards nothing may have gone wrong in it that a test did not ask for (`page.expected`)."""
    context.set_offline(False)  # as a test that failed may have left it
    context.clear_cookies()
    context.add_cookies(json.loads(session.read_text())["cookies"])
    opened = context.new_page()
    wrong: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            wrong.append(f"console: {message.text} at {message.location.get('url')}")

    def watch(request: Request) -> None:
        if not request.url.startswith((site.url, "data:", "blob:", site.url.replace("http", "ws"))):
            wrong.append(f"foreign request: {request.url}")

    opened.on("console", hear)
    opened.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    opened.on("request", watch)
    yield opened
    for each in context.pages:
        each.close()
    expected = EXPECTED.pop(id(opened), ())
    unexpected = [line for line in wrong if not any(status in line for status in expected)]
    assert not unexpected, "\n".join(unexpected)
