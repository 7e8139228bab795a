"""Times that were not measured: how long, how many requests, and that neither counts as good once the ledger is trusted again."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from controlplane.controller.loop import Controller, Observe
from controlplane.core.formatting import minute
from controlplane.fleet.models import Observation
from controlplane.incidents.decide import engine
from controlplane.incidents.models import Incident
from controlplane.policy.observe.objectives import burning
from controlplane.slo.core import words
from controlplane.slo.core.gaps import Key, Process
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.sli import Availability
from controlplane.slo.core.windows import BurnWindow
from controlplane.slo.evaluate.gaps import IN_PART
from controlplane.slo.models import MeasurementGap, ObjectiveState
from controlplane.slo.save import save_objective
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.core.recorded import RECORDED_STEP_S
from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.store import Store, StoreUnavailableError
from tests.support.slo.ledger_rows import rows

pytestmark = pytest.mark.django_db
ALL = Objective("all", "All", Availability(), 0.99, windows=(BurnWindow("page", 3_600, 300, 0.02),))
LARGE = replace(ALL, slug="large", scope={"model": "chat-large"})
SMALL = replace(ALL, slug="small", scope={"model": "chat-small", "tier": "batch"})
OURS = replace(ALL, slug="ours", scope={"model": "chat-large", "tenant": "we"})
BEFORE_S, AFTER_S, EVERY_S = 300, 900, 30
"""The gateway serves all the time: a large request each second, and a small one too until nothing is measured, from 5 to 15 minutes."""
GAP = "“telemetry is down: no request reaches the ledger”"


class History:
    """A controller beside a gateway, ticking every 5 s."""

    def __init__(self, store: Store, began: datetime) -> None:
        self.began, self.store = began, store
        self.gateway_began = began - timedelta(minutes=1)
        self.observe: Observe = lambda alerts, now, fence: None
        self.controller = self.started()
        self.status, self.ahead_s = "ok", 0.0
        self.silent_from_s: int | None = None  # of a second gateway, where there is one
        self._row = replace(rows(random.Random(1), 1, 0, 1)[0], error_type="", tier="batch", e2e_ns=0)
        self._at_s = 0
        self.ended: dict[Key, int] = {("chat-large", "batch"): 0, ("chat-small", "batch"): 0}
        self.process: Mapping[str, Process] = {}
        self.lost: list[LedgerRow] = []
        self._waiting: list[LedgerRow] = []
        self._received = Counter[int]()  # seconds by their five minutes, as telemetry notes them

    def started(self) -> Controller:
        config = settings.CONFIG.model_copy(update={"retention_days": 1})
        made = Controller(self.store, config, lambda alerts, now, fence: self.observe(alerts, now, fence))
        made.gateways = lambda: self.process
        self.controller = made
        return made

    def until(
        self, end_s: int, *, measured: bool = True, runs: bool = True, heard: bool = True, loses: int = 0
    ) -> None:
        """Serve until `end_s` since the beginning: telemetry is down unless `measured`, and the gateway silent unless `heard`.

        One of `loses` requests is lost while others arrive.
        """
        for second in range(self._at_s, end_s):
            models = ["chat-large"] if second >= BEFORE_S else ["chat-large", "chat-small"]
            arrives = measured and not (loses and second % loses == 0)
            (self._waiting if arrives else self.lost).extend(self._served(second, model) for model in models)
            if second % EVERY_S == 0:
                self._insert()
                if runs:
                    self._tick(second, measured, heard)
            if measured:
                self._received[self._at(second) // RECORDED_STEP_S * RECORDED_STEP_S] += 1
        self._at_s = end_s
        self._insert()

    def arrive(self, late: Sequence[LedgerRow]) -> None:
        self._waiting += late

    def said(self, slug: str = "all") -> str:
        document = ObjectiveState.objects.get(objective__slug=slug).document
        return words.unmeasured(document["unmeasured"], document["total"], minute)

    def minute(self, second: int) -> str:
        return minute(self._at(second) * 10**9)

    def _at(self, second: int) -> int:
        return int(self.began.timestamp()) + second

    def _insert(self) -> None:
        self.store.rollups.insert_recorded(self._received)
        self._received.clear()
        if self._waiting:
            self.store.writer.insert_requests(self._waiting, 1)
        self._waiting = []

    def _served(self, second: int, model: str) -> LedgerRow:
        self.ended[model, "batch"] += 1
        at_ns = self._at(second) * 10**9
        ids = {"trace_id": f"{second:031x}{model == 'chat-large':d}", "request_id": f"{second:016x}"}
        times = {"entry_start_ns": at_ns, "start_ns": at_ns, "end_ns": at_ns}
        return replace(self._row, model=model, status=self.status, **ids, **times)

    def _tick(self, second: int, measured: bool, heard: bool) -> None:
        at = self.began + timedelta(seconds=second)
        heard_s = at.timestamp() if heard else self.began.timestamp()
        self.process = {"gateway 1": Process(self.gateway_began.timestamp(), heard_s, dict(self.ended), self.ahead_s)}
        if self.silent_from_s is not None:
            self.process |= {
                "gateway 2": Process(heard_s, self.began.timestamp() + min(second, self.silent_from_s), {})
            }
        for name, state in (("gateway", "up"), ("telemetry", "up" if measured else "down")):
            seen = {"kind": name, "state": state, "observed_at": at, "down_since": None if measured else at}
            Observation.objects.update_or_create(component=name, defaults=seen)
        self.controller.step(at)
        self.controller.evaluator.sweep(int(at.timestamp() * 1e9))


@pytest.fixture
def history(store: Store, monkeypatch: pytest.MonkeyPatch) -> History:
    asked = store.rows

    def rows_of(sql: str, parameters: Mapping[str, object] | None = None) -> Sequence[Any]:
        assert not connection.savepoint_ids, "a transaction, for which others wait, lasts while the store is asked"
        return asked(sql, parameters)

    monkeypatch.setattr(store, "rows", rows_of)
    for objective in (ALL, LARGE, SMALL, OURS):
        save_objective(objective, who="olga")
    now = datetime.now(UTC).replace(microsecond=0)
    return History(store, now - timedelta(seconds=now.timestamp() % 60 + 3_600))


def test_what_was_not_measured_is_said_until_it_comes_late(history: History) -> None:
    history.until(BEFORE_S)
    assert history.said() == ""
    history.until(AFTER_S, measured=False)
    history.until(AFTER_S + 100)
    when = f"{history.minute(270)} to {history.minute(900)}, {GAP}"
    assert history.said() == f"10 min were not measured (about 596 requests, 46 % of all): {when}"
    assert history.said("large") == f"10 min were not measured (about 596 requests, 60 % of all): {when}"
    assert history.said("small") == ""
    unsure = "about 596 requests of its model and tier, of which its own are not known"
    assert history.said("ours") == f"10 min were not measured ({unsure}): {when}"
    history.arrive(history.lost[:300])
    history.until(AFTER_S + 200)
    assert "about 296 requests" in history.said()
    history.arrive(history.lost[300:])
    history.until(AFTER_S + 300)
    assert history.said() == ""
    assert not MeasurementGap.objects.exists()


def test_requests_that_are_lost_while_others_arrive_are_said_until_they_come_late(history: History) -> None:
    history.until(BEFORE_S + 1)
    history.until(3 * BEFORE_S, loses=5)
    history.until(4 * BEFORE_S + 90)
    when = f"{history.minute(300)} to {history.minute(900)}, “some requests did not reach the ledger while others did”"
    assert history.said("large") == f"10 min were not fully measured (about 115 requests, 9.1 % of all): {when}"
    assert history.said("small") == ""
    state = ObjectiveState.objects.get(objective__slug="all")
    assert state.state == "quiet"  # what was measured tells
    [(_, burn)] = burning(["all"])["all"]
    assert (burn.is_judged, burn.unmeasured_s) == (True, 600)
    history.arrive(history.lost)
    history.until(4 * BEFORE_S + 300)
    assert history.said() == ""


def test_requests_that_are_lost_before_nothing_is_measured_are_said_too(history: History) -> None:
    history.until(BEFORE_S + 1)
    history.until(480, loses=5)
    history.until(600, measured=False)
    history.until(BEFORE_S * 3)
    whys = MeasurementGap.objects.order_by("began_at").values_list("why", flat=True)
    assert list(whys) == [IN_PART, GAP[1:-1]]
    began, ended = MeasurementGap.objects.filter(why=IN_PART).values_list("began_at", "ended_at")[0]
    assert (began - history.began).total_seconds() == 300
    assert ended == MeasurementGap.objects.exclude(why=IN_PART).get().began_at


def test_what_the_store_did_not_answer_is_compared_later_and_no_objective_is_unjudged_for_it(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unanswered(window: Window) -> dict[Key, int]:
        raise StoreUnavailableError("the store does not answer")

    history.until(BEFORE_S + 1)
    with monkeypatch.context() as away:
        away.setattr(history.store.objectives, "ended", unanswered)
        history.until(3 * BEFORE_S, loses=5)
        seen = Observation.objects.get(component="controller")
        assert (seen.state, seen.up_at) == ("degraded", seen.observed_at)
        assert seen.error == "what was not measured cannot be counted: the store does not answer"
    history.until(4 * BEFORE_S + 90)
    assert "were not fully measured (about 117 requests, 9.3 % of all)" in history.said("large")


@pytest.mark.parametrize("loses", [0, 5])
def test_beside_a_gateway_that_is_silent_nobody_knows_whether_all_requests_arrived(
    history: History, loses: int
) -> None:
    history.silent_from_s = BEFORE_S
    history.until(BEFORE_S + 1)
    assert history.said() == ""
    history.until(3 * BEFORE_S, loses=loses)
    history.until(4 * BEFORE_S - 60, loses=loses)
    when = f"{history.minute(300)} to {history.minute(900)}, “a gateway was silent: whether all requests reached the ledger is not known”"
    for slug in ("all", "large", "small"):
        assert history.said(slug) == f"10 min were not fully measured (nobody knows how many requests): {when}"
    [(_, burn)] = burning(["all"])["all"]
    assert (burn.is_judged, burn.unmeasured_s) == (True, 600)
    history.arrive(history.lost)
    history.until(4 * BEFORE_S + 30, loses=loses)
    assert "nobody knows how many requests" in history.said()


def test_by_a_clock_that_is_off_no_request_is_said_to_be_lost(history: History) -> None:
    history.ahead_s = -10.0
    history.until(2 * BEFORE_S, loses=5)
    assert not MeasurementGap.objects.exists()


def test_a_time_without_a_controller_is_measured(history: History) -> None:
    history.until(BEFORE_S)
    history.until(AFTER_S, runs=False)
    history.started()
    history.until(AFTER_S + 80)
    assert not MeasurementGap.objects.exists()


@pytest.mark.parametrize(
    ("served", "why", "state"),
    [
        (False, "neither telemetry nor a controller ran", "quiet"),
        (True, "neither telemetry nor a controller ran, while a gateway did", "unknown"),
    ],
)
def test_a_time_in_which_nothing_measured_is_said_and_blinds_where_a_gateway_served(
    history: History, served: bool, why: str, state: str
) -> None:
    windows = (BurnWindow("page", 7_200, 1_000, 0.02),)
    save_objective(replace(ALL, slug="slow", windows=windows), who="olga")
    history.until(BEFORE_S)
    history.until(AFTER_S, measured=False, runs=False)
    if not served:
        history.gateway_began = history.began + timedelta(seconds=AFTER_S - 10)  # it starts with all the rest
    history.started()
    history.until(AFTER_S + 400)
    when = f"{history.minute(300)} to {history.minute(900)}, “{why}”"
    assert history.said() == f"10 min were not measured (nobody knows how many requests): {when}"
    assert ObjectiveState.objects.get(objective__slug="slow").state == state


@pytest.mark.parametrize("heard", [True, False])
def test_where_nobody_heard_all_that_gateways_counted_the_number_is_not_known(history: History, heard: bool) -> None:
    """The gateway is silent, or another controller goes on."""
    history.until(BEFORE_S)
    history.until(AFTER_S - 100, measured=False, heard=heard)
    if heard:
        history.started()
    history.until(AFTER_S, measured=False, heard=heard)
    history.until(AFTER_S + 80)
    when = f"{history.minute(300)} to {history.minute(900)}, {GAP}"
    assert history.said() == f"10 min were not measured (nobody knows how many requests): {when}"
    assert history.said("small") == history.said()


def test_an_incident_does_not_resolve_before_its_short_window_is_measured_again(history: History) -> None:
    history.observe = engine.observe
    history.status = "error"
    history.until(BEFORE_S)
    incident = Incident.objects.get(objective="all")
    history.until(AFTER_S, measured=False)
    history.status = "ok"
    history.until(AFTER_S + 125)
    state = ObjectiveState.objects.get(objective__slug="all")
    assert (state.state, state.document["why"]) == ("unknown", f"most of the last 5 min was not measured: {GAP[1:-1]}")
    [(_, burn)] = burning(["all"])["all"]
    assert (burn.fast, burn.is_judged) == (None, False)
    incident.refresh_from_db()
    assert (incident.status, incident.signal) == ("open", "unknown")
    history.until(AFTER_S + 330)
    assert ObjectiveState.objects.get(objective__slug="all").state == "quiet"
