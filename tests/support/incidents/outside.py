"""What leaves Weir in tests: notices, and heartbeats."""

import pytest
from pytest_django import Settings

from controlplane.incidents.notify import notices
from controlplane.incidents.notify.core.notice import Change, Notice
from tests.support.incidents.notices import pagerduty


@pytest.fixture
def sent(db: None, monkeypatch: pytest.MonkeyPatch) -> list[Notice]:
    """What went into the outbox, for a destination that takes everything. The outbox itself works as always."""
    pagerduty("all")
    seen: list[Notice] = []
    enqueue = notices.enqueue  # type: ignore[attr-defined]

    def listen(notice: Notice | Change) -> bool:
        is_taken = enqueue(notice)
        if isinstance(notice, Notice):
            seen.append(notice)
        return is_taken

    monkeypatch.setattr(notices, "enqueue", listen)
    return seen


@pytest.fixture
def pinged(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """URLs that a heartbeat was sent to; a service elsewhere is configured, and accepts it."""
    settings.CONFIG = settings.CONFIG.model_copy(update={"heartbeat_url": "https://elsewhere.example/ping"})
    urls: list[str] = []

    async def ping(url: str) -> str:
        urls.append(url)
        return ""

    monkeypatch.setattr("controlplane.incidents.notify.delivery.health.heartbeat.ping", ping)
    return urls
