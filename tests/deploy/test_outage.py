"""Everything fails, and somebody is told: through the real gateway, receiver, ledger, controller and worker."""

from pathlib import Path

from tests.controlplane.incidents.delivery.pagerduty import PagerDuty
from tests.deploy.outage import break_everything, key_of, resolve, running


def test_a_total_outage_reaches_pagerduty_and_so_does_its_end(shared_dir: Path, tmp_path: Path) -> None:
    with (
        PagerDuty(shared_dir / "fixtures" / "pagerduty" / "events-v2.openapi.json") as stand_in,
        running(tmp_path, stand_in) as run,
    ):
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
        assert stand_in.violations == []
        assert len(stand_in.alerts) == 1
