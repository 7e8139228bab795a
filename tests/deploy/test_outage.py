"""An outage becomes a page, through the real gateway, receiver, ledger, controller and worker. The tests of this file share one run
and go from top to bottom."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.deploy.outage import (
    FAULTS,
    break_everything,
    broken,
    key_of,
    mend_everything,
    page_of,
    resolve,
    running,
    since_of,
)
from tests.support.deploy.run import Run
from tests.support.incidents.pagerduty import CONTRACT, PagerDuty

pytestmark = pytest.mark.soak  # in `make test`, tests/browser/launched/test_run.py takes a part of the system away
SINCE_WITHIN_S = 10.0
SETTINGS = {"WEIR_COMPONENT_UP_FOR_S": "5"}
"""A tenth of the usual time until an incident resolves, which each test waits for."""


@pytest.fixture(scope="module")
def stand_in(shared_dir: Path) -> Iterator[PagerDuty]:
    with PagerDuty(shared_dir / CONTRACT) as stand_in:
        yield stand_in
        assert stand_in.violations == []


@pytest.fixture(scope="module")
def run(stand_in: PagerDuty, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with running(tmp_path_factory.mktemp("weir"), stand_in, **SETTINGS) as run:
        yield run


def test_a_total_outage_reaches_pagerduty_and_so_does_its_end(run: Run, stand_in: PagerDuty) -> None:
    assert not stand_in.alerts
    break_everything(run)
    assert stand_in.wait(lambda it: bool(key_of(it)), timeout_s=300)
    key = key_of(stand_in)
    _, event = stand_in.alert(key).taken[0]
    assert event["payload"]["severity"] == "critical"
    resolve(run, key)
    assert stand_in.wait(lambda it: it.alert(key).state == "resolved", timeout_s=120)
    assert stand_in.actions(key)[0] == "trigger"
    assert stand_in.actions(key)[-1] == "resolve"
    assert len(stand_in.alerts) == 1
    mend_everything(run)


@pytest.mark.parametrize("name", ["gateway_hang", "hang"])
def test_a_component_that_hangs_is_named_with_its_since_and_ends_once_it_answers(
    run: Run, stand_in: PagerDuty, name: str
) -> None:
    fault = FAULTS[name]
    with broken(run, fault) as at:
        assert stand_in.wait(lambda it: page_of(it, fault.components, at) is not None, timeout_s=300)
        found = page_of(stand_in, fault.components, at)
    assert found is not None
    key, payload = found
    assert fault.says in payload["summary"]
    assert "no answer within 2 s" in payload["summary"]
    assert abs(since_of(payload["summary"], at) - at) <= SINCE_WITHIN_S
    assert stand_in.wait(lambda it: it.alert(key).state == "resolved", timeout_s=300)
    _, event = stand_in.alert(key).taken[-1]
    assert event["event_action"] == "resolve"
