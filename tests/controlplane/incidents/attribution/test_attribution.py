"""What the store says of a burning objective is what the ledger's rows say, judged one by one."""

import threading
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from controlplane.core.formatting import TEXT
from controlplane.fleet.changes import DECISIONS
from controlplane.incidents.attribution import gather, questions
from controlplane.incidents.decide import engine
from controlplane.incidents.models import Incident
from controlplane.incidents.notify import changes, notices
from controlplane.incidents.report.postmortem import postmortem
from controlplane.slo.core.count_plan import cut
from controlplane.slo.core.sli import Availability, Cost, Indicator, Latency
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.store import Store
from tests.support.incidents.alerts import NOW, alert
from tests.support.incidents.burning import SLOW, at_the_end
from tests.support.slo.judging import is_good
from tests.support.web.served import Filled

INDICATORS: list[Indicator] = [
    Availability(),
    Latency("ttft", 800),
    Latency("e2e", 2000),
    Latency("itl", 20.5),
    Latency("queue", 300),
    Latency("ttft", 800, ttft_definition="client"),
    Cost(0.0004),
]


@pytest.mark.parametrize("indicator", INDICATORS, ids=str)
def test_the_store_judges_each_request_as_the_indicator_does(filled: Filled, indicator: Indicator) -> None:
    objective = replace(SLOW, indicator=indicator)
    judged = cut(objective.indicator)
    assert judged is not None
    good = [is_good(indicator, row) for row in filled.of(model="chat-large")]
    window = Window(filled.from_ns, filled.to_ns)
    steps = Store(filled.dsn).burned.series(window, {"model": ("chat-large",)}, judged, 60)
    assert sum(step.bad for step in steps) == good.count(False)
    assert sum(step.total for step in steps) == len(good) - good.count(None)


def test_the_queue_that_grew_is_blamed_from_when_it_grew(served: Filled) -> None:
    found = questions.attribution_of(Store(served.dsn), at_the_end(served, SLOW))
    assert found is not None
    assert found["stages"][0]["stage"] == "queue"
    assert found["stages"][0]["share"] > 0.8
    assert sum(one["share"] for one in found["stages"]) == pytest.approx(1, abs=0.05)
    slow = [row.entry_start_ns for row in served.of(model="chat-large") if is_good(SLOW.indicator, row) is False]
    assert found["since_ns"] in slow, "it began with a bad request, not with the step that it lies in"
    began = (found["since_ns"] - served.from_ns) / (served.to_ns - served.from_ns)
    assert 0.6 < began < 0.85, "the queue grows in the last third"
    assert ("pool", "chat-large-local") in {(one["dimension"], one["value"]) for one in found["segments"]}
    slow = {row.trace_id for row in served.of(model="chat-large") if is_good(SLOW.indicator, row) is False}
    assert len(found["traces"]) == 3
    assert set(found["traces"]) <= slow


def test_the_value_is_the_quantile_of_the_target_since_it_began(served: Filled) -> None:
    found = questions.attribution_of(Store(served.dsn), at_the_end(served, SLOW))
    assert found is not None
    since = [row for row in served.of(model="chat-large") if row.entry_start_ns >= found["since_ns"]]
    times = [row.ttft_ns / 1e6 for row in since if row.ttft_ns is not None and is_good(SLOW.indicator, row) is not None]
    assert found["value"] == pytest.approx(np.quantile(times, 0.95))


def test_failures_are_blamed_on_the_stage_they_failed_in(served: Filled) -> None:
    objective = replace(SLOW, indicator=Availability(), target=0.999)
    found = questions.attribution_of(Store(served.dsn), at_the_end(served, objective))
    assert found is not None
    failed = Counter(row.error_stage for row in served.of(model="chat-large") if row.status == "error")
    assert [(one["stage"], one["share"]) for one in found["stages"]] == [("model", 1.0)]
    assert found["bad"] == sum(failed.values())
    rows = [row for row in served.of(model="chat-large") if row.status == "error"]
    kinds = Counter((row.error_type, row.http_status, row.error_stage) for row in rows)
    first = {name: found["errors"][0][name] for name in ("error_type", "http_status", "stage")}
    assert found["errors"][0]["requests"] == kinds.most_common(1)[0][1] == kinds[tuple(first.values())]
    assert found["since_ns"] in {None, *(row.entry_start_ns for row in rows)}


def test_no_kind_of_failure_is_more_than_all_of_them(served: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests go on failing between the reads."""
    monkeypatch.setattr(questions, "_errors", lambda *_: [{"requests": 10_000}])
    objective = replace(SLOW, indicator=Availability(), target=0.999)
    found = questions.attribution_of(Store(served.dsn), at_the_end(served, objective))
    assert found is not None
    assert (found["bad"], found["total"] > 10_000) == (10_000, True)


def test_the_present_figure_has_nothing_from_before_it_began(served: Filled) -> None:
    at_the_last = at_the_end(served, SLOW)
    began_ns = at_the_last.at_ns - 60 * questions.SECOND_NS
    rows = [row for row in served.of(model="chat-large") if row.entry_start_ns >= began_ns]
    times = [row.ttft_ns / 1e6 for row in rows if row.ttft_ns is not None and is_good(SLOW.indicator, row) is not None]
    assert questions.value(Store(served.dsn), at_the_last, began_ns) == pytest.approx(np.quantile(times, 0.95))


def test_a_scope_without_bad_requests_has_no_attribution(served: Filled) -> None:
    objective = replace(SLOW, scope={"model": "nobody"})
    assert questions.attribution_of(Store(served.dsn), at_the_end(served, objective)) is None


@pytest.mark.django_db
def test_an_opening_incident_keeps_what_was_true_then(served: Filled) -> None:
    now = datetime.fromtimestamp(served.to_ns // 10**9, UTC)
    began = gather.since(questions.attribution_of(Store(served.dsn), at_the_end(served, SLOW)))
    assert began is not None
    for after_s, source in ((-60, DECISIONS), (30, DECISIONS), (30, "ci")):
        summary = f"{source} {after_s}"
        changes.record(summary, summary, source, began + timedelta(seconds=after_s), scope={"model": "chat-large"})
    engine.observe([at_the_end(served, SLOW)], now)
    incident = Incident.objects.get()
    assert incident.attribution is not None
    named = [change["summary"] for change in incident.changes]
    assert named == ["ci 30", f"{DECISIONS} -60"], "what Weir did about it is none of its causes"
    assert incident.attribution_missing == ""
    assert incident.since == gather.since(incident.attribution)
    assert "of the burn is queue time" in incident.summary
    frozen = incident.attribution
    engine.observe([at_the_end(served, SLOW)], now + timedelta(minutes=1))
    incident.refresh_from_db()
    assert incident.attribution == frozen


@pytest.mark.django_db
def test_the_figure_of_an_open_incident_follows_the_present(served: Filled) -> None:
    now = datetime.fromtimestamp(served.to_ns // 10**9, UTC)
    engine.observe([at_the_end(served, SLOW)], now)
    earlier = now - timedelta(minutes=2)
    engine.observe([alert(SLOW, at=earlier)], now + timedelta(minutes=1))
    incident = Incident.objects.get()
    last = int(earlier.timestamp()) * 10**9 + questions.SECOND_NS
    since_ns = incident.attribution["since_ns"]  # type: ignore[index]
    window = range(max(since_ns, last - questions.PRESENT_S * questions.SECOND_NS), last)
    rows = [row for row in served.of(model="chat-large") if row.entry_start_ns in window]
    times = [row.ttft_ns / 1e6 for row in rows if row.ttft_ns is not None and is_good(SLOW.indicator, row) is not None]
    assert incident.burning["value"] == pytest.approx(np.quantile(times, 0.95))
    opened = incident.attribution["value"]  # type: ignore[index]
    assert incident.burning["worst"] == max(opened, incident.burning["value"])
    said = f"was {TEXT.ms(opened)} against 1.5 s at opening, {TEXT.ms(incident.burning['value'])} now"
    assert said in incident.summary


@pytest.mark.django_db
def test_what_the_store_did_not_answer_is_filled_in_once_it_does(
    served: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.fromtimestamp(served.to_ns // 10**9, UTC)
    for minutes, source in ((200, "ci"), (20, DECISIONS), (10, "policy")):
        changes.record(source, f"change of {source}", source, now - timedelta(minutes=minutes))
    with monkeypatch.context() as patch:
        gone = Store("clickhouse://weir:nobody@127.0.0.1:1/weir")
        patch.setattr("controlplane.telemetry.query.answers.store", lambda: gone)
        engine.observe([at_the_end(served, SLOW)], now)
    incident = Incident.objects.get()
    assert (incident.attribution, incident.attribution_missing) == (None, gather.AWAY)
    assert (
        f"not known ({gather.AWAY}), since when is not known, the last change before was change of policy"
        in incident.summary
    )
    assert [change["identity"] for change in incident.changes] == ["policy"], "what Weir did may be its answer"
    assert "change of policy" in postmortem(incident)
    engine.observe([at_the_end(served, SLOW)], now + timedelta(minutes=1))
    incident.refresh_from_db()
    assert incident.attribution is not None
    assert incident.attribution_missing == ""
    assert [entry.kind for entry in incident.entries.all()] == ["opened", "withheld", "attributed"]
    assert "queue" in notices.facts(incident).attribution["stages"][0]["stage"]  # type: ignore[index]


@pytest.mark.django_db
@pytest.mark.usefixtures("away")
def test_a_store_that_hangs_delays_the_page_no_longer_than_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    changes.record("ci", "deployment", "ci", NOW)

    def hang(*asked: object) -> None:
        released.wait(60)

    monkeypatch.setattr(gather, "attribution_of", hang)
    found = gather.gather([alert()], deadline_s=0.05)
    released.set()
    assert [one.missing for one in found.values()] == [gather.NO_TIME]
    assert [[change["identity"] for change in one.changes] for one in found.values()] == [["ci"]]
