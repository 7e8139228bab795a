"""What the browser's console may say in a test, and where screenshots lie."""

from playwright.sync_api import Page

from deploy.local.process import ROOT

SCREENSHOTS = ROOT / "build" / "screenshots"
EXPECTED: dict[int, tuple[str, ...]] = {}
"""By `id` of a page: texts of messages that its test causes on purpose."""


def expect_status(page: Page, status: int) -> None:
    """Chromium logs every answer of 4xx and 5xx. This one is expected."""
    EXPECTED[id(page)] = (f"the server responded with a status of {status}",)
