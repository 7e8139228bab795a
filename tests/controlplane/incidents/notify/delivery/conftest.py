from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from controlplane.incidents.notify.delivery.core.retry import Policy
from controlplane.incidents.notify.delivery.send.sender import Sender
from tests.support.incidents.pagerduty import CONTRACT, PagerDuty
from tests.support.incidents.sender import QUICK, StartSender


@pytest.fixture
def stand_in(shared_dir: Path, settings: Settings) -> Iterator[PagerDuty]:
    settings.CONFIG = settings.CONFIG.model_copy(update={"outbound_allow": ["127.0.0.1"]})
    with PagerDuty(shared_dir / CONTRACT) as running:
        yield running


@pytest.fixture
def start_sender(transactional_db: None, home: Path) -> Iterator[StartSender]:
    """Starts a sender as the worker does; stopped with the test, before its database is."""
    running: list[Sender] = []

    def start(policy: Policy = QUICK) -> Sender:
        sender = Sender(policy, poll_s=0.05)
        running.append(sender)
        sender.start()
        return sender

    yield start
    for sender in running:
        sender.stop()
    for sender in running:
        sender.join(120)
        assert not sender.is_alive()
