"""Ticks of the controller: who leads, what it hands on, and what it says when it cannot judge."""

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.conf import settings

from controlplane.controller.loop import LEASE_LASTS, Controller
from controlplane.fleet.models import Observation
from controlplane.slo.alert import Alert
from controlplane.slo.models import ObjectiveState, StoredObjective, Tick
from controlplane.slo.objective import Objective
from controlplane.slo.save import save_objective
from controlplane.slo.sli import Availability, Latency
from controlplane.telemetry.store import Store
from tests.controlplane.slo.ledger_rows import rows

pytestmark = pytest.mark.django_db
UP = Objective("up", "Up", Availability(), 0.999)
FAST = Objective("fast", "Fast", Latency("e2e", 10**9), 0.9, split_by=("model",))


class Incidents:
    """Where alerts go."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Alert]] = []

    def observe(self, alerts: Sequence[Alert], now: datetime) -> None:
        self.seen.append({alert.key: alert for alert in alerts})


@pytest.fixture
def incidents() -> Incidents:
    return Incidents()


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC)


def controller(store: Store, incidents: Incidents) -> Controller:
    return Controller(store, settings.CONFIG, incidents.observe)


def counted(made: Controller, now: datetime) -> Controller:
    while made.evaluator.sweep(int(now.timestamp() * 1e9)):
        pass
    return made


def outage(store: Store, now: datetime) -> None:
    """A good hour whose last minute fails."""
    to_ns = int(now.timestamp() * 1e9)
    ledger = [
        replace(row, status="ok", error_type="") for row in rows(random.Random(1), 3_600, to_ns - 3_600 * 10**9, to_ns)
    ]
    store.insert_requests(
        [replace(row, status="error") if to_ns - row.entry_start_ns < 60 * 10**9 else row for row in ledger], 1
    )


def test_a_minute_of_total_outage_is_handed_on_as_a_page(store: Store, incidents: Incidents, now: datetime) -> None:
    save_objective(UP, who="olga")
    save_objective(FAST, who="olga")
    outage(store, now)
    made = controller(store, incidents)
    made.step(now)
    counted(made, now)
    made.step(now + timedelta(seconds=1))

    [_, seen] = incidents.seen
    assert (seen["up"].state, seen["up"].severity) == ("firing", "page")
    assert {key for key in seen if key.startswith("fast/")} == {
        "fast/model=chat-large",
        "fast/model=chat-small",
        "fast/model=it's 'odd'",
    }
    assert ObjectiveState.objects.get(key="up").state == "firing"
    tick = Tick.objects.latest()
    assert (tick.error, tick.objectives, tick.holder) == ("", 4, made.holder)
    assert Observation.objects.get(component="controller").state == "up"


def test_only_the_one_that_leads_hands_on_and_another_takes_over(store: Store, now: datetime) -> None:
    save_objective(UP, who="olga")
    told, silent = Incidents(), Incidents()
    first, second = controller(store, told), controller(store, silent)

    assert first.step(now).leads
    assert not second.step(now).leads
    assert (len(told.seen), len(silent.seen)) == (1, 0)
    assert second.step(now + LEASE_LASTS + timedelta(seconds=1)).leads
    assert len(silent.seen) == 1


def test_without_the_ledger_everything_known_is_unknown(store: Store, incidents: Incidents, now: datetime) -> None:
    save_objective(UP, who="olga")
    save_objective(FAST, who="olga")
    outage(store, now)
    made = controller(store, incidents)
    made.step(now)
    made.evaluator._store = Store("clickhouse://weir:x@127.0.0.1:1/weir")
    outcome = made.step(now + timedelta(seconds=5))

    assert outcome.error.startswith("the ledger cannot be read")
    assert incidents.seen[1].keys() == incidents.seen[0].keys()
    assert {alert.state for alert in incidents.seen[1].values()} == {"unknown"}
    assert set(ObjectiveState.objects.values_list("state", flat=True)) == {"unknown"}
    assert Tick.objects.latest().error
    assert Observation.objects.get(component="controller").state == "degraded"


def test_a_gateway_that_serves_while_nothing_arrives_is_doubted(
    store: Store, incidents: Incidents, now: datetime
) -> None:
    save_objective(UP, who="olga")
    then = now - timedelta(minutes=10)
    outage(store, then)
    made = counted_after_a_step(store, incidents, now)
    for component, figures in (("gateway", {"requests_per_s": 3.0}), ("telemetry", {"behind_s": 0.0})):
        Observation.objects.create(
            component=component, kind=component, state="up", figures=figures, observed_at=now + timedelta(seconds=20)
        )
    made.step(now + timedelta(seconds=21))
    outcome = made.step(now + timedelta(seconds=37))

    [found] = outcome.evaluations
    assert found.alert.state == "unknown"
    assert "the gateway serves 3.0 requests/s, and the ledger gets none" in found.why


def counted_after_a_step(store: Store, incidents: Incidents, now: datetime) -> Controller:
    made = controller(store, incidents)
    made.step(now)
    return counted(made, now)


def test_an_objective_that_is_none_does_not_stop_the_others(store: Store, incidents: Incidents, now: datetime) -> None:
    save_objective(UP, who="olga")
    save_objective(replace(UP, slug="odd"), who="olga")
    StoredObjective.objects.filter(slug="odd").update(target=2)
    made = counted_after_a_step(store, incidents, now)
    made.step(now + timedelta(seconds=5))

    assert incidents.seen[1].keys() == {"up"}
    assert incidents.seen[1]["up"].state == "quiet"
    assert "target=2" in ObjectiveState.objects.get(objective__slug="odd").document["why"]


def test_incidents_that_fail_are_the_ticks_error_and_pages_still_get_states(store: Store, now: datetime) -> None:
    save_objective(UP, who="olga")

    def fails(alerts: Sequence[Alert], now: datetime) -> None:
        raise RuntimeError("no room")

    made = Controller(store, settings.CONFIG, fails)
    made.step(now)

    assert "RuntimeError: no room" in Tick.objects.latest().error
    assert ObjectiveState.objects.count() == 1


def test_a_disabled_objective_is_not_judged(store: Store, incidents: Incidents, now: datetime) -> None:
    save_objective(UP, who="olga", enabled=False)
    controller(store, incidents).step(now)
    assert incidents.seen == [{}]
    assert not ObjectiveState.objects.exists()
