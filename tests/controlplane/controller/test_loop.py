"""Ticks of the controller: which process leads, its alerts, and its states when it cannot judge."""

import random
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings

from controlplane.controller.loop import LEASE_LASTS, Controller, Fence
from controlplane.core import lease
from controlplane.fleet.models import Observation
from controlplane.incidents.act.actions import retire
from controlplane.incidents.components import observed
from controlplane.incidents.decide import engine
from controlplane.incidents.models import Incident
from controlplane.slo.core.alert import Alert
from controlplane.slo.core.evaluation import unjudged
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.sli import Availability, Latency
from controlplane.slo.models import ObjectiveState, StoredObjective
from controlplane.slo.save import save_objective
from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.store import Store
from tests.support.slo.ledger_rows import rows

pytestmark = pytest.mark.django_db
UP = Objective("up", "Up", Availability(), 0.999)
FAST = Objective("fast", "Fast", Latency("e2e", 10**9), 0.9, split_by=("model",))


class Incidents:
    """Where alerts go."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Alert]] = []

    def observe(self, alerts: Sequence[Alert], now: datetime, fence: Fence) -> None:
        self.seen.append({alert.key: alert for alert in alerts})


@pytest.fixture
def incidents() -> Incidents:
    return Incidents()


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC)


def controller(store: Store, incidents: Incidents) -> Controller:
    """With a short retention: without requests every hour of it is counted."""
    return Controller(store, settings.CONFIG.model_copy(update={"retention_days": 1}), incidents.observe)


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
    store.writer.insert_requests(
        [replace(row, status="error") if to_ns - row.entry_start_ns < 60 * 10**9 else row for row in ledger], 1
    )


def test_a_minute_of_total_outage_becomes_a_page(store: Store, incidents: Incidents, now: datetime) -> None:
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
    tick = Observation.objects.get(component="controller")
    assert (tick.state, tick.error, tick.figures["objectives"], tick.up_at) == ("up", "", 4, tick.observed_at)


def test_only_the_leader_writes_and_another_process_takes_over(store: Store, now: datetime) -> None:
    save_objective(UP, who="olga")
    first_seen, second_seen = Incidents(), Incidents()
    first, second = controller(store, first_seen), controller(store, second_seen)

    assert first.step(now).leads
    assert not second.step(now).leads
    assert (len(first_seen.seen), len(second_seen.seen)) == (1, 0)
    assert second.step(now + LEASE_LASTS + timedelta(seconds=1)).leads
    assert len(second_seen.seen) == 1


def test_a_process_that_lost_the_lease_during_a_tick_writes_nothing(
    store: Store, incidents: Incidents, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stood still for longer than its lease lasts, and another leads when it goes on."""
    save_objective(UP, who="olga")
    first, second = controller(store, incidents), controller(store, Incidents())
    tick = first.evaluator.tick

    def slow(*given: Any) -> Any:
        found = tick(*given)
        assert second.step(now + LEASE_LASTS + timedelta(seconds=1)).leads
        return found

    monkeypatch.setattr(first.evaluator, "tick", slow)
    outcome = first.step(now)

    assert not outcome.leads
    assert incidents.seen == []
    later = now + LEASE_LASTS + timedelta(seconds=1)
    assert Observation.objects.get(component="controller").observed_at == ObjectiveState.objects.get().at == later


def test_a_process_that_lost_the_lease_writes_no_incidents(store: Store, now: datetime) -> None:
    save_objective(UP, who="olga")
    outage(store, now)
    made = Controller(store, settings.CONFIG, engine.observe)
    made.step(now)
    counted(made, now)
    [found] = made.evaluator.tick([UP], [], int(now.timestamp() * 1e9))
    assert found.alert.severity == "page"

    def overtaken() -> None:
        raise lease.LeaseLostError("another leads")

    with pytest.raises(lease.LeaseLostError):
        engine.observe([found.alert], now, overtaken)
    with pytest.raises(lease.LeaseLostError):
        retire(now, overtaken)
    assert not Incident.objects.exists()


def test_without_the_ledger_every_objective_is_unknown(store: Store, incidents: Incidents, now: datetime) -> None:
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
    seen = Observation.objects.get(component="controller")
    assert (seen.state, seen.up_at, seen.observed_at) == ("degraded", now, now + timedelta(seconds=5))


def test_answers_that_take_minutes_are_not_taken_for_a_stale_ledger(
    store: Store, incidents: Incidents, now: datetime
) -> None:
    """Each began minutes ago and ended just now: what the gateway counts is in the ledger."""
    save_objective(UP, who="olga")
    at = now + timedelta(seconds=60)
    at_ns = int(at.timestamp() * 1e9)
    ended = rows(random.Random(3), 30, at_ns - 200 * 10**9, at_ns - 180 * 10**9)
    store.writer.insert_requests(
        [
            replace(row, e2e_ns=(e2e_ns := at_ns - 2 * 10**9 - row.start_ns), end_ns=row.start_ns + e2e_ns)
            for row in ended
        ],
        1,
    )
    made = counted_after_a_step(store, incidents, now)
    for component, figures in (("gateway", {"requests_per_s": 3.0}), ("telemetry", {"behind_s": 0.0})):
        Observation.objects.create(component=component, kind=component, state="up", figures=figures, observed_at=at)
    for later_s in (0, 8, 16, 24):
        [found] = made.step(at + timedelta(seconds=later_s)).evaluations
        assert "none reaches the ledger" not in found.why


@pytest.mark.parametrize("component", ["telemetry", "gateway"])
def test_objectives_are_unknown_at_the_tick_after_the_ledger_stopped(
    store: Store, incidents: Incidents, now: datetime, component: str
) -> None:
    save_objective(UP, who="olga")
    at_ns = int(now.timestamp() * 1e9)
    store.writer.insert_requests(rows(random.Random(3), 30, at_ns - 200 * 10**9, at_ns - 2 * 10**9), 1)
    made = counted_after_a_step(store, incidents, now)
    for name in ("gateway", "telemetry"):
        Observation.objects.create(component=name, kind=name, state="up", observed_at=now)
    [trusted] = made.step(now).evaluations
    assert trusted.alert.state != "unknown"
    at = now + timedelta(seconds=5)
    Observation.objects.filter(component=component).update(state="down", observed_at=at, down_since=at)
    [found] = made.step(at).evaluations
    assert (found.alert.state, f"{component} is down" in found.why) == ("unknown", True)


def test_requests_that_reach_no_ledger_are_missed_within_half_a_minute(
    store: Store, incidents: Incidents, now: datetime
) -> None:
    """Gateway and telemetry are up, and nothing that the one ends reaches the other."""
    save_objective(UP, who="olga")
    at_ns = int(now.timestamp() * 1e9)
    store.writer.insert_requests(rows(random.Random(3), 30, at_ns - 200 * 10**9, at_ns - 2 * 10**9), 1)
    made = counted_after_a_step(store, incidents, now)
    for second in range(0, 35, 5):
        at = now + timedelta(seconds=second)
        for name, figures in (("gateway", {"requests_per_s": 3.0}), ("telemetry", {"behind_s": 0.0})):
            Observation.objects.update_or_create(
                component=name, defaults={"kind": name, "state": "up", "figures": figures, "observed_at": at}
            )
        [found] = made.step(at).evaluations
    assert "none reaches the ledger" in found.why


@pytest.mark.parametrize(("good_s", "within_s"), [(20, 75), (3_600, 125)])
def test_a_hang_pages_as_its_requests_end_by_timeout(
    store: Store, incidents: Incidents, now: datetime, good_s: int, within_s: int
) -> None:
    """Five requests a second are answered at once, until none is any more and each ends after 60 s: the ledger hears of nothing for a
    minute, and then of what began a minute ago. The ledger is never taken for stale, and it pages once enough has failed."""
    save_objective(UP, who="olga")
    began = now.replace(microsecond=0)
    began_ns = int(began.timestamp()) * 10**9
    made = controller(store, incidents)
    sample = replace(rows(random.Random(1), 1, 0, 1)[0], error_type="")

    def served(start_ns: int, number: int, status: str, lasted_ns: int) -> LedgerRow:
        times = {"entry_start_ns": start_ns, "start_ns": start_ns, "end_ns": start_ns + lasted_ns, "e2e_ns": lasted_ns}
        return replace(sample, trace_id=f"{number:032x}", request_id=f"{number:016x}", status=status, **times)

    every_ns = 200_000_000
    store.writer.insert_requests([served(began_ns - (n + 1) * every_ns, n, "ok", 10**8) for n in range(good_s * 5)], 1)
    made.step(began)
    counted(made, began)
    paged = []
    for second in range(5, 200, 5):
        at = began + timedelta(seconds=second)
        ended = range(max(0, (second - 65) * 5), max(0, (second - 60) * 5))
        store.writer.insert_requests(
            [served(began_ns + n * every_ns, 10**6 + n, "error", 60 * 10**9) for n in ended], 1
        )
        figures = {"requests_per_s": 5.0 if second > 60 else 0.0, "in_flight": 5.0 * min(second, 60)}
        for component, seen in (("gateway", figures), ("telemetry", {"behind_s": 0.0})):
            Observation.objects.update_or_create(
                component=component, defaults={"kind": component, "state": "up", "figures": seen, "observed_at": at}
            )
        [found] = made.step(at).evaluations
        assert found.alert.state != "unknown", found.why
        if found.alert.severity == "page":
            paged.append(second)
    assert paged
    assert paged[0] <= within_s
    assert paged == list(range(paged[0], 200, 5))


def test_a_span_dated_in_the_future_does_not_make_the_ledger_look_fresh(store: Store, now: datetime) -> None:
    now_ns = int(now.timestamp() * 1e9)
    [row] = rows(random.Random(3), 1, now_ns + 86_400 * 10**9, now_ns + 86_401 * 10**9)
    old = replace(
        row, request_id="0" * 16, entry_start_ns=now_ns - 600 * 10**9, start_ns=now_ns - 600 * 10**9, e2e_ns=10**9
    )
    long = replace(
        row, request_id="1" * 16, entry_start_ns=now_ns - 90 * 10**9, start_ns=now_ns - 90 * 10**9, e2e_ns=10**15
    )
    store.writer.insert_requests([row, long], 1)
    assert store.objectives.newest_end(now_ns) is None
    store.writer.insert_requests([old], 1)
    assert store.objectives.newest_end(now_ns) == now_ns - 599 * 10**9


@pytest.mark.parametrize(
    ("stored_per_s", "words"),
    [
        (0.0, "the gateway ends 3.0 requests/s, and none reaches the ledger"),
        (2.0, "requests reach the ledger (2.0/s), and by their own clocks the newest ended"),
    ],
)
def test_a_gateway_that_serves_while_nothing_new_arrives_makes_objectives_unknown(
    store: Store, incidents: Incidents, now: datetime, stored_per_s: float, words: str
) -> None:
    save_objective(UP, who="olga")
    then = now - timedelta(minutes=10)
    outage(store, then)
    made = counted_after_a_step(store, incidents, now)
    stored = {"behind_s": 0.0, "requests_per_s": stored_per_s}
    for component, figures in (("gateway", {"requests_per_s": 3.0}), ("telemetry", stored)):
        Observation.objects.create(
            component=component, kind=component, state="up", figures=figures, observed_at=now + timedelta(seconds=20)
        )
    made.step(now + timedelta(seconds=21))
    outcome = made.step(now + timedelta(seconds=37))

    [found] = outcome.evaluations
    assert found.alert.state == "unknown"
    assert words in found.why


def counted_after_a_step(store: Store, incidents: Incidents, now: datetime) -> Controller:
    made = controller(store, incidents)
    made.step(now)
    return counted(made, now)


def test_where_a_tick_leaves_no_time_history_is_counted_all_the_same(
    store: Store, incidents: Incidents, now: datetime
) -> None:
    """As on a store that takes seconds for each query: nothing is judged before its history is counted."""
    save_objective(UP, who="olga")
    outage(store, now)
    made = controller(store, incidents)
    for second in range(5):
        made.step(now + timedelta(seconds=second))
        made._sweep(0.0, threading.Event())
    assert [seen["up"].state for seen in incidents.seen[::4]] == ["unknown", "firing"]


def test_an_invalid_objective_does_not_stop_the_others(store: Store, incidents: Incidents, now: datetime) -> None:
    save_objective(UP, who="olga")
    save_objective(replace(UP, slug="odd"), who="olga")
    StoredObjective.objects.filter(slug="odd").update(target=2)
    made = counted_after_a_step(store, incidents, now)
    made.step(now + timedelta(seconds=5))

    assert incidents.seen[1].keys() == {"up"}
    assert incidents.seen[1]["up"].state == "quiet"
    assert "target=2" in ObjectiveState.objects.get(objective__slug="odd").document["why"]


def test_failing_incidents_are_the_ticks_error_and_states_are_written(store: Store, now: datetime) -> None:
    save_objective(UP, who="olga")

    def fails(alerts: Sequence[Alert], now: datetime, fence: Fence) -> None:
        raise RuntimeError("no room")

    made = Controller(store, settings.CONFIG, fails)
    made.step(now)

    assert "RuntimeError: no room" in Observation.objects.get(component="controller").error
    assert ObjectiveState.objects.count() == 1


def test_a_disabled_objective_is_not_judged(store: Store, incidents: Incidents, now: datetime) -> None:
    save_objective(UP, who="olga", enabled=False)
    controller(store, incidents).step(now)
    assert incidents.seen == [{}]
    assert not ObjectiveState.objects.exists()


@pytest.mark.parametrize("at_zero", [{"chat/eu"}, {"chat/us"}])
def test_an_objective_of_a_pool_that_has_no_replica_by_decision_is_unknown_and_no_fault(
    store: Store, incidents: Incidents, now: datetime, monkeypatch: pytest.MonkeyPatch, at_zero: set[str]
) -> None:
    save_objective(UP, who="olga")
    made = controller(store, incidents)
    idle = replace(unjudged(UP, {}, int(now.timestamp() * 1e9), "no replica of chat/eu runs"), idle=("chat/eu",))
    monkeypatch.setattr(made.evaluator, "tick", lambda *_: [idle])
    made.at_zero = lambda: at_zero
    made.step(now)
    assert ObjectiveState.objects.get().state == "unknown", "pages say so"
    [seen] = observed.read(now, now, "").objectives
    assert seen.is_unknown is (at_zero != {"chat/eu"})
