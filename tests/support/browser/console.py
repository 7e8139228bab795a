"""What the browser's console may say in a test, and where screenshots lie."""

from playwright.sync_api import Page

from deploy.local.process import ROOT
from tests.support.soak import SOAKING

SCREENSHOTS = ROOT / "build" / "screenshots"
EXPECTED: dict[int, tuple[str, ...]] = {}
"""By `id` of a page: texts of messages that its test causes on purpose."""


def expect_status(page: Page, status: int) -> None:
    """Chromium logs every answer of 4xx and 5xx. This one is expected."""
    EXPECTED[id(page)] = (f"the server responded with a status of {status}",)


def leave_picture(page: Page, name: str, full_page: bool = False) -> None:
    """In build/screenshots, for people to look at: in `make test-soak` alone, since no test looks at it."""
    if SOAKING:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=full_page)
