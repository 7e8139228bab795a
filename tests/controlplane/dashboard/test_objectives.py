"""Objectives' pages: what they say, and what they say when something is missing."""

import re
import time
from dataclasses import replace
from datetime import timedelta
from html import unescape

import pyarrow as pa
import pytest
from django.test import Client
from django.utils import timezone

from controlplane.core.formatting import minute
from controlplane.dashboard.views import objectives
from controlplane.fleet.models import Team
from controlplane.slo.core.burndown import HOUR_S, Point
from controlplane.slo.core.count_plan import definition
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.period import SECOND_NS, Span
from controlplane.slo.core.sli import Availability, Histogram, Latency
from controlplane.slo.models import ObjectiveState, StoredObjective
from controlplane.slo.replay.burndown import Seen
from controlplane.slo.save import save_objective
from controlplane.telemetry.store import Store
from controlplane.telemetry.store.read.objectives import TALLY_SCHEMA
from tests.support.slo.ticks import ticked
from tests.support.web.html import page_of, words_of
from tests.support.web.served import Filled

pytestmark = pytest.mark.django_db
SLOW = Objective("chat-fast", "Large chat is fast", Latency("e2e", 1.0), 0.9, {"model": "chat-large"}, owner="serving")
DOCUMENT = {
    "verdicts": [
        {"severity": "page", "long_s": 3600, "short_s": 300, "budget_share": 0.02, "threshold": 14.4, "long": 20.0,
         "short": 25.0, "enough_events": True, "fires": True}
    ],
    "budget": {"allowed": 10.0, "bad": 15, "left_share": -0.5}, "lasts_s": 0.0, "bad": 15, "total": 100, "sli": 0.85,
    "why": "", "note": "",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _saved() -> None:
    Team.objects.create(name="serving", contact="#serving")
    save_objective(SLOW, who="olga")


def judged(state: str = "firing", seconds_ago: float = 1, **document: object) -> ObjectiveState:
    at = timezone.now() - timedelta(seconds=seconds_ago)
    ticked(at)
    return ObjectiveState.objects.create(
        objective=StoredObjective.objects.get(slug="chat-fast"), key="chat-fast/model=chat-large",
        scope={"model": "chat-large"}, at=at, since=at, state=state,
        severity="page" if state == "firing" else "", document={**DOCUMENT, **document},
    )  # fmt: skip


def text(response: object) -> str:
    return " ".join(response.content.decode().split())  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("compare", "back", "says"),
    [("yesterday", 1, ">24 h before<"), ("last-week", 7, ">a week ago<")],
)
def test_the_list_puts_the_last_24_hours_beside_an_earlier_day(
    teammate: Client, served: Filled, annexed: Store, compare: str, back: int, says: str
) -> None:
    judged()
    hour = int(time.time()) // HOUR_S

    def count(hours: range, bad: int) -> None:
        rows = [
            {"definition": definition(SLOW), "hour": each, "version": 1, "splits": ["[]"], "bad": [bad], "total": [100]}
            for each in hours
        ]
        annexed.objectives.insert_tallies(pa.Table.from_pylist(rows, schema=TALLY_SCHEMA))

    assert says not in text(teammate.get("/objectives"))
    count(range(hour - 24, hour), 5)
    count(range(hour - 24 * (back + 1) + 1, hour - 24 * back), 1)
    page = text(teammate.get(f"/objectives?compare={compare}"))
    assert says in page
    assert ">95 %<" in page
    assert page.count("not known") == 1, "an hour of the earlier day was not counted"
    count(range(hour - 24 * (back + 1), hour - 24 * (back + 1) + 1), 1)
    page = text(teammate.get(f"/objectives?compare={compare}&model=chat-large"))
    assert "not known" not in page
    assert ">99 %<" in page
    assert 'class="bad"><span aria-hidden="true">▲</span> 4 points worse' in page
    assert teammate.get("/objectives?compare=tomorrow").status_code == 400


def test_what_burns_is_said_in_words_icon_and_figures(teammate: Client, served: Filled) -> None:
    judged()
    listed = text(teammate.get("/objectives"))
    page = text(teammate.get("/objectives/chat-fast"))
    assert "▲</span> burning, page" in listed
    assert "✕ gone, 1.5× spent" in listed
    assert 'class="muted lasts"' not in page
    assert "the budget is gone" in page
    assert "90 %: whole request is at most 1 ms, over the last 30 days" in page
    assert "1 h and 5 min" in page
    assert "▲ page" in page


def test_the_last_day_stands_beside_earlier_ones_as_far_as_they_are_known(
    teammate: Client, served: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged()
    hour = int(time.time()) // HOUR_S
    points = [Point((hour + back) * HOUR_S, 0.5, int(-48 <= back < -24), 10) for back in range(-60, 0)]
    span = Span(points[0].start_s * SECOND_NS, hour * HOUR_S * SECOND_NS)
    monkeypatch.setattr(objectives, "history", lambda *_: Seen(span, points))
    page = words_of(page_of(teammate, "/objectives/chat-fast"))
    assert "the last 24 hours 100 % 0 240 the 24 hours before 90 % 24 240" in page
    assert "the same a week ago not all of it was counted" in page
    del points[:30]
    assert "Compared with before" not in text(teammate.get("/objectives/chat-fast")), "there is no day before"


@pytest.mark.parametrize(("left", "said"), [(-0.1, "✕ broken over"), (0.0, "✓ kept over"), (0.4, "✓ kept over")])
def test_a_promise_that_is_broken_over_its_period_is_red_though_nothing_burns(
    teammate: Client, served: Filled, left: float, said: str
) -> None:
    judged(state="quiet", budget={"allowed": 10.0, "bad": 11, "left_share": left})
    for url in ("/objectives", "/objectives/chat-fast"):
        shown = words_of(page_of(teammate, url))
        assert f"{said} the last 30 days, ● not burning now" in shown
    assert ("1 is broken over its period" in shown_of(teammate)) is (left < 0)


def shown_of(client: Client) -> str:
    return words_of(page_of(client, "/objectives"))


def test_a_state_that_nobody_renewed_is_not_believed(teammate: Client, served: Filled) -> None:
    judged(seconds_ago=1200)
    listed = text(teammate.get("/objectives"))
    assert "not judged for 20 min: does the controller run?" in listed
    assert "burning" not in listed.split("<tbody>")[1]


@pytest.mark.parametrize(("tick_s", "said"), [(15, "not burning now"), (25, "not judged for 25 s")])
def test_an_unchanged_state_is_believed_for_as_long_as_the_controller_ticks(
    teammate: Client, served: Filled, tick_s: int, said: str
) -> None:
    judged(state="quiet", seconds_ago=30)
    ticked(timezone.now() - timedelta(seconds=tick_s))
    assert said in shown_of(teammate)
    assert ("have not been judged" in text(teammate.get("/incidents"))) is (tick_s > 20)


def test_what_is_unknown_is_said_first_and_never_as_none_burning(teammate: Client, served: Filled) -> None:
    judged(state="unknown", why="telemetry does not answer")
    listed = text(teammate.get("/objectives"))
    assert '<strong class="warn">○ 1</strong> of 1 objective is unknown' in listed
    assert "none burns" not in listed
    assert "Figures are as they were last known" in listed
    assert "Judged every few seconds" not in listed


@pytest.mark.parametrize(
    ("state", "total", "sentence"),
    [
        ("unknown", 100, "of 1 objective is unknown; 1 disabled"),
        ("firing", 100, "of 1 objective burns too fast; ✕ 1 is broken over its period; 1 disabled"),
        ("quiet", 0, "1 objective had no request to judge; 1 disabled"),
    ],
)
def test_objectives_that_are_disabled_or_had_no_request_are_counted_apart(
    teammate: Client, served: Filled, state: str, total: int, sentence: str
) -> None:
    save_objective(replace(SLOW, slug="chat-off", name="Nobody asks"), who="olga", enabled=False)
    judged(state=state, total=total)
    shown = shown_of(teammate)
    assert sentence in shown and "none burns" not in shown
    assert "◼ disabled" in shown
    assert teammate.get("/objectives/chat-off").status_code == 200


def test_before_the_controller_has_run_nothing_holds(teammate: Client, served: Filled) -> None:
    listed = text(teammate.get("/objectives"))
    assert "The controller has not run yet" in listed
    assert "not judged yet" in listed
    assert "✓" not in listed and "●" not in listed


def test_of_many_the_worst_are_listed_and_all_are_a_click_away(teammate: Client, served: Filled) -> None:
    StoredObjective.objects.bulk_create(
        StoredObjective(slug=f"many-{n}", name="Many", target=0.9, indicator_kind="availability") for n in range(120)
    )
    total = StoredObjective.objects.count()
    page = teammate.get("/objectives").content.decode()
    assert page.count("<tr data-row") == 100 and f"The 100 worst of {total}" in words_of(page)
    page = teammate.get("/objectives?all=1").content.decode()
    assert page.count("<tr data-row") == total and "list all" not in page


def test_an_empty_page_says_what_to_do(owner: Client, served: Filled) -> None:
    StoredObjective.objects.all().delete()
    assert "/admin/slo/storedobjective/add/" in text(owner.get("/objectives"))


@pytest.mark.parametrize(("query", "shown"), [("state=firing", True), ("state=quiet", False), ("owner=serving", True),
                                              ("owner=others", False), ("model=chat-large", True), ("model=x", False)])  # fmt: skip
def test_filters_choose(teammate: Client, served: Filled, query: str, shown: bool) -> None:
    judged()
    assert ("Large chat is fast" in text(teammate.get(f"/objectives?{query}"))) is shown
    assert "firing" in text(teammate.get("/objectives?state=angry")), "the remedy"


def test_who_ate_the_budget_is_asked_of_the_ledger(teammate: Client, fresh: Filled) -> None:
    bad = [row for row in fresh.of(model="chat-large") if row.status == "ok" and row.e2e_ns > 1_000_000]
    page = text(teammate.get("/objectives/chat-fast/burned?over=1h"))
    assert f"<strong>{len(bad)}</strong> of" in page
    assert "/requests?from=now-1h" in page
    assert "min_ms=1" in page


def test_a_histogram_has_no_requests_to_blame(teammate: Client, served: Filled) -> None:
    save_objective(Objective("vllm", "vLLM", Histogram("vllm:x", 0.5), 0.9), who="olga")
    assert "a histogram has counts and no requests" in text(teammate.get("/objectives/vllm/burned")).lower()
    assert teammate.get("/objectives/vllm").status_code == 200


def test_without_the_store_the_page_still_says_what_was_judged(teammate: Client, away: None) -> None:
    judged()
    page = text(teammate.get("/objectives/chat-fast"))
    assert "The store does not answer" in page
    assert "the budget is gone" in page
    assert teammate.get("/objectives/chat-fast/burned").status_code == 503


def test_a_row_edited_past_validation_has_a_page_that_says_why(teammate: Client, served: Filled) -> None:
    StoredObjective.objects.filter(slug="chat-fast").update(target=2)
    judged(state="unknown", why="target=2 is not between 0 and 1")
    assert "target=2 is not between 0 and 1" in text(teammate.get("/objectives/chat-fast"))


def test_each_value_of_a_split_has_a_permalink(teammate: Client, served: Filled) -> None:
    split = save_objective(replace(SLOW, slug="by-tier", indicator=Availability(), split_by=("tier",)), who="olga").row
    for tier in ("premium", "batch"):
        ObjectiveState.objects.create(
            objective=split, key=f"by-tier/model=chat-large/tier={tier}", scope={"model": "chat-large", "tier": tier},
            at=timezone.now(), since=timezone.now(), state="quiet", document={**DOCUMENT, "sli": 1.0},
        )  # fmt: skip
    page = text(teammate.get("/objectives/by-tier?of=by-tier/model=chat-large/tier=premium"))
    assert "(model chat-large · tier premium)" in page
    hrefs = {unescape(href) for href in re.findall(r'href="(/objectives/by-tier\?of=[^"]+)"', page)}
    assert len(hrefs) == 2
    assert {"tier batch)" in text(teammate.get(href)) for href in hrefs} == {True, False}


def test_without_a_request_it_neither_holds_nor_burns(teammate: Client, served: Filled) -> None:
    judged("quiet", bad=0, total=0, sli=None, budget={"allowed": 0.0, "bad": 0, "left_share": 1.0})
    listed, page = text(teammate.get("/objectives")), text(teammate.get("/objectives/chat-fast"))
    assert "○</span> no data" in listed
    assert "no request in the last 30 days" in listed
    assert "No request in the last 30 days." in page
    assert "kept" not in listed.split("<tbody>")[1].split("</tbody>")[0]


def test_requests_that_reached_no_pool_are_said_to_be_those_and_led_to(teammate: Client, served: Filled) -> None:
    split = save_objective(replace(SLOW, slug="by-pool", split_by=("pool",)), who="olga").row
    ObjectiveState.objects.create(
        objective=split, key="by-pool/model=chat-large/pool=", scope={"model": "chat-large", "pool": ""},
        at=timezone.now(), since=timezone.now(), state="quiet", document=DOCUMENT,
    )  # fmt: skip
    listed, page = text(teammate.get("/objectives")), text(teammate.get("/objectives/by-pool"))
    assert "model chat-large · no pool" in listed
    assert "Requests that reached no pool" in listed
    assert "(none)" not in listed + page
    (href,) = re.findall(r'href="(/requests\?[^"]*)">its requests', page)
    assert "pool=%28unknown%29" in href


def test_where_nothing_was_counted_no_empty_chart_is_drawn(teammate: Client, served: Filled) -> None:
    save_objective(replace(SLOW, scope={"model": "nobody"}), who="olga")
    judged("quiet", bad=0, total=0, sli=None)
    page = teammate.get("/objectives/chat-fast").content.decode()
    assert re.search(r'<script id="figure" type="application/json">""</script>', page)


def test_the_burn_down_begins_with_the_first_request_and_says_so(teammate: Client, served: Filled) -> None:
    page = text(teammate.get("/objectives/chat-fast"))
    began = min(row.entry_start_ns for row in served.rows)
    assert f"seen since {minute(began)} UTC, " in page and "% of the 30 days" in page
    assert "Nothing has been counted yet" not in page


def test_a_period_that_is_recorded_in_part_says_how_much_of_it_was_judged(teammate: Client, served: Filled) -> None:
    now_s = int(timezone.now().timestamp())
    period_from_ns = (now_s - 30 * 86_400) * 10**9
    state = judged("quiet", recorded_since_s=now_s - 31 * 60 - 1, period_from_ns=period_from_ns)
    assert "Judged on 31 min of 30 days: before it nothing is recorded" in text(teammate.get("/objectives/chat-fast"))
    state.document |= {"recorded_since_s": now_s - 31 * 86_400}
    state.save()
    assert "Judged on" not in text(teammate.get("/objectives/chat-fast"))


def test_what_was_not_measured_is_said_and_never_green(teammate: Client, served: Filled) -> None:
    gap = {"from_s": 1_795_860_120, "to_s": 1_795_860_720, "why": "its disk is full", "requests": 300}
    unmeasured = {"seconds": 600, "requests": 300, "in_part": False, "of_more": False, "gaps": [gap], "others": 2}
    budget = {"allowed": 10.0, "bad": 5, "left_share": 0.5}
    judged("quiet", budget=budget, unmeasured=unmeasured)
    when = f"{minute(gap['from_s'] * SECOND_NS)} to {minute(gap['to_s'] * SECOND_NS)}"
    said = (
        f"10 min were not measured (about 300 requests, 75 % of all): {when}, “its disk is full”; and 2 earlier times"
    )
    page = words_of(teammate.get("/objectives/chat-fast").content.decode())
    assert f"▲ {said}. These requests count as neither good nor bad." in page
    listed = teammate.get("/objectives")
    assert "10 min not measured" in text(listed)
    for response in (listed, teammate.get("/objectives/chat-fast")):
        assert '<strong class="muted"><span aria-hidden="true">✓</span> kept as measured</strong>' in text(response)
    [status] = teammate.get("/api/v1/objectives/chat-fast/status").json()["states"]
    assert status["unmeasured"] == unmeasured
