"""A browser logged in to what `python -m deploy.local` runs. Each file has a `run` of its own, which its tests share."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.support.deploy.run import Run
from tests.support.incidents.pagerduty import CONTRACT, PagerDuty


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
def site(run: Run) -> System:
    return System(run)


@pytest.fixture(scope="module")
def session(browser: Browser, site: System) -> Path:
    """Cookies of someone who logged in by the form."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{site.url}/")
    page.get_by_label("Username").fill("admin")
    page.get_by_label("Password").fill((site.run.home / "admin-password").read_text().strip())
    page.get_by_role("button", name="Log in", exact=True).click()
    expect(page.get_by_role("heading", name="Processes")).to_be_visible()
    state = site.run.home / "browser-session.json"
    context.storage_state(path=state)
    context.close()
    return state
