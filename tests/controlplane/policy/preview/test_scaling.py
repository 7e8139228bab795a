"""A preview replays recorded traffic of the pool with the revision, and with what is in force."""

import subprocess
import sys
import time

import numpy as np
import pytest
from django.core.exceptions import ValidationError

from controlplane.fleet.models import Pool
from controlplane.planning import jobs
from controlplane.planning.models import GpuType, PlanJob, PoolCapacity, ReplicaCapacityEntry
from controlplane.policy.models import PolicyRevision
from controlplane.policy.preview.scaling import first_replayed, reached
from controlplane.policy.revisions import previews, steps
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.sli import Availability, Latency
from controlplane.slo.models import StoredObjective
from controlplane.telemetry.query import answers
from controlplane.telemetry.store import Store
from forecasting.demand import Demand, DemandKey
from forecasting.series import Series
from tests.support.planning.stored_demand import store_demand, store_recorded
from tests.support.policy.people_and_texts import scaling, small_fleet

pytestmark = [pytest.mark.django_db, pytest.mark.processes]
STEP_S, HOURS = 300, 26
REPLICA_RPS = 2.0
QUIET_RPS, BUSY_RPS = 2.0, 9.0
WITHOUT_FORECAST = "  forecast: 'off'\n"


@pytest.fixture(autouse=True)
def answering(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "store", lambda: store)


@pytest.fixture(autouse=True)
def chat() -> Pool:
    """`chat-eu` shares its region's requests with `chat-mini`, half and half. A replica carries 2 requests/s and starts in two minutes."""
    small_fleet()
    pool = Pool.objects.get(name="chat-eu")
    gpu = GpuType.objects.create(name="h100", usd_per_hour=4)
    own = PoolCapacity.objects.create(pool=pool, gpu_type=gpu, gpus_per_replica=2, entered_cold_start_s=120)
    ReplicaCapacityEntry.objects.create(
        pool=own, gpu_type=gpu, source="benchmark", requests_per_s=REPLICA_RPS, input_tokens=500, output_tokens=80,
        batching_factor=8, slots=32,
    )  # fmt: skip
    objective("first-token", Latency("ttft", 2_000))
    return pool


@pytest.fixture
def recorded(store: Store) -> None:
    """A day of little traffic, with an hour of much."""
    rates = np.full(HOURS * 12, QUIET_RPS)
    rates[-48:-36] = BUSY_RPS
    fill(store, rates)


def fill(store: Store, rates: np.ndarray) -> None:
    """Requests/s that the pool gets, in each five minutes until now."""
    from_s = (int(time.time()) - 600) // STEP_S * STEP_S - len(rates) * STEP_S
    store_demand(store, from_s, (rates * 2 * STEP_S).astype(np.int64), ("chat", "standard", "eu"))
    store_recorded(store, from_s, [STEP_S] * len(rates))


def objective(slug: str, indicator: Latency | Availability) -> None:
    row = StoredObjective()
    row.take(Objective(slug, slug, indicator, 0.95, {"model": "chat"}))
    row.save()


def policy(most: int, slug: str = "first-token", more: str = "") -> str:
    return scaling(most, more=f"  objective: {slug}\n{more}")


def previewed(text: str) -> PolicyRevision:
    row = steps.propose(text, who="ann", source="api").revision
    previews.start(row, "ann")
    assert jobs.run_queued() == 1
    job = PlanJob.objects.get()
    assert (job.state, job.error) == ("done", "")
    row.refresh_from_db()
    return row


def test_figures_stand_beside_those_of_what_is_in_force(recorded: None) -> None:
    steps.activate(steps.propose(policy(2, more=WITHOUT_FORECAST), who="ann", source="api").revision, "ann")
    row = previewed(policy(8, more=WITHOUT_FORECAST))
    assert (row.state, row.preview["current_revision"], row.preview["objective"]) == ("previewed", 1, "first-token")
    assert row.events.first() is not None and row.events.all()[0].who == "ann"
    own, current = row.preview["revision"], row.preview["current"]
    half = QUIET_RPS * (HOURS - 1) * 3600 + BUSY_RPS * 3600
    assert row.preview["requests"] == pytest.approx(half, rel=0.05)
    assert row.preview["days"] == pytest.approx(HOURS / 24, abs=0.01)
    assert own["attainment"] > 0.9 > current["attainment"]  # two replicas carry 4 requests/s, and 9 come
    assert current["most_replicas"] == 2 < own["most_replicas"] <= 8
    assert own["gpu_hours"] > current["gpu_hours"] >= 2 * 1 * HOURS * 0.9
    assert own["usd"] == pytest.approx(own["gpu_hours"] * 4)


def test_what_a_replica_carries_at_least_is_said_to_be_that(recorded: None) -> None:
    assert "lower bound" not in previewed(policy(2, more=WITHOUT_FORECAST)).preview["note"]
    ReplicaCapacityEntry.objects.update(lower_bound=True)
    PlanJob.objects.all().delete()
    assert "beyond its lower bound is not known" in previewed(policy(3, more=WITHOUT_FORECAST)).preview["note"]


def test_gpus_that_nobody_has_priced_have_no_cost_and_no_budget_of_money_lets_any_be_added(recorded: None) -> None:
    GpuType.objects.update(usd_per_hour=0)  # as a benchmark makes it
    own = previewed(policy(8, more=f"{WITHOUT_FORECAST}  budget: {{usd_per_day: 500}}\n")).preview["revision"]
    assert (own["usd"], own["changes"]) == (None, 0)


def test_forecasts_of_that_time_start_replicas_before_a_rise_that_comes_each_day(store: Store, chat: Pool) -> None:
    PoolCapacity.objects.filter(pool=chat).update(entered_cold_start_s=900)
    day = np.full(288, QUIET_RPS)
    day[96:144] = BUSY_RPS
    fill(store, np.tile(day, 3))
    steps.activate(steps.propose(policy(12, more=WITHOUT_FORECAST), who="ann", source="api").revision, "ann")
    row = previewed(policy(12, more="  forecast: auto\n"))
    own, current = row.preview["revision"], row.preview["current"]
    assert own["attainment"] > current["attainment"]
    assert "Forecasts are made anew from what was known at each time" in row.preview["note"]


def test_forecasts_that_do_not_reach_as_far_as_replicas_take_to_start_are_left_out(recorded: None, chat: Pool) -> None:
    PoolCapacity.objects.filter(pool=chat).update(entered_cold_start_s=3 * 3600)
    row = previewed(policy(8))
    assert "Forecasts are left out: replicas of this pool take longer to start" in row.preview["note"]
    assert "current" not in row.preview and row.preview["current_revision"] is None, "nothing is in force beside it"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (policy(4, "answered"), "objective 'answered' is not of TTFT, ITL or E2E: name such a one as spec.objective"),
        (scaling(4), "which objective judges pool 'chat-eu' is not measured yet: name first-token as spec.objective"),
        (
            scaling(4, pool="chat-us"),
            "what a replica of 'chat-us' carries is not known: enter it at /admin/planning/poolcapacity/.",
        ),
        (policy(4), "no request that 'chat-eu' would answer was recorded in the last 14 days: send some first"),
    ],
)
def test_what_cannot_be_replayed_says_so_and_is_not_previewed(text: str, reason: str) -> None:
    objective("answered", Availability())
    row = previewed(text)
    assert (row.state, row.previewed_at, row.preview) == ("draft", None, {"error": reason})
    with pytest.raises(ValidationError, match="where nothing can be measured, put it in shadow"):
        steps.approve(row, "abe")
    assert steps.approve(steps.shadow(row, "ann"), "abe").state == "approved"


def test_too_little_traffic_is_said(store: Store) -> None:
    fill(store, np.full(36, QUIET_RPS))
    row = previewed(policy(4))
    assert row.preview == {
        "error": "only 3 hours of traffic of 'chat-eu' were recorded: preview it once there is a day of it"
    }


def test_the_newest_traffic_is_replayed_where_there_is_too_much() -> None:
    rates = Series(0, STEP_S, np.array([1, 2, np.nan, 2, 3]))
    assert first_replayed(rates, most=1_600) == 3
    assert first_replayed(rates) == 0
    assert first_replayed(rates, most=1) == 4


def test_demands_add_up_without_what_the_cache_answered_and_gaps_stay() -> None:
    def demand(requests: list[float], cached: float = 0.0) -> Demand:
        values = np.array(requests)
        inputs, outputs, none, answered = (
            Series(0, STEP_S, each) for each in (values * 500, values * 80, values * 0, values * 0 + cached)
        )
        return Demand(DemandKey("chat"), Series(0, STEP_S, values), inputs, outputs, none, none, answered)

    rates = reached(
        [(demand([np.nan, 2, 4, np.nan, 1, np.nan], cached=1), 0.5), (demand([np.nan, 1, *[np.nan] * 4]), 0.5)]
    )
    assert rates is not None
    assert rates.start_s == STEP_S
    np.testing.assert_allclose(rates.values, [1.0, 1.5, np.nan, 0.0])
    assert reached([]) is None


def test_what_is_large_is_imported_only_where_it_is_used() -> None:
    code = "import django, sys; django.setup(); from django.urls import get_resolver; get_resolver().url_patterns; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "controlplane.policy.preview.job" in loaded
    assert not loaded & {
        "numba",
        "forecasting.simulate.engine",
        "controlplane.policy.preview.scaling",
        "onelogin.saml2",
        "xmlsec",
        "lxml",
    }


def test_a_preview_that_is_cancelled_leaves_the_draft(recorded: None) -> None:
    row = steps.propose(policy(8), who="ann", source="api").revision
    job = previews.start(row, "ann")
    jobs.cancel(job)
    assert jobs.run_queued() == 0
    row.refresh_from_db()
    assert (row.state, row.preview) == ("draft", {})
