"""Targets and metrics through the API and on the page."""

import html
import itertools
import math
import re
import time
from dataclasses import replace

import pytest
from django.test import Client

from controlplane.telemetry.core.metric_types import TargetState
from controlplane.telemetry.query.metric_answers import target_states
from controlplane.telemetry.store import Store
from tests.support.telemetry.stored_metrics import write
from tests.support.web import signals
from tests.support.web.api import get
from tests.support.web.html import page_of, words_of
from tests.support.web.served import Filled

S = 10**9


@pytest.fixture(scope="module")
def now_ns(filled: Filled) -> int:
    to_ns = time.time_ns()
    signals.fill(Store(filled.dsn), to_ns)
    return to_ns


def test_a_target_is_up_down_or_stale_and_never_up_when_nobody_looks(
    caller: Client, served: Filled, now_ns: int
) -> None:
    found = {each["instance"]: each for each in get(caller, "targets")["targets"]}
    assert {name: each["state"] for name, each in found.items()} == {
        "gpu-1:8002": "up", "gpu-2:8002": "up", "redis:9121": "down", "gone:1": "former",
    }  # fmt: skip
    assert found["redis:9121"]["error"] == "ClientConnectorError: connection refused"
    assert found["gpu-1:8002"]["samples"] == 40
    assert found["gpu-1:8002"]["duration_ms"] == 12
    assert found["gone:1"]["age_s"] > 600


def test_targets_are_stale_and_not_former_while_none_is_scraped() -> None:
    """Whoever scrapes may have stopped: that they left the lists is not known."""
    newest = TargetState("vllm", "a:1", "", True, 0, 100 * S, 0, 1, "", 15 * S)
    older, rare = replace(newest, time_ns=20 * S), replace(newest, interval_ns=60 * S)
    assert target_states([newest, older], 110 * S) == ["up", "former"]
    assert target_states([newest, older, rare], 160 * S) == ["stale", "stale", "up"]


def test_events_tell_when_a_target_went_down_and_came_back(caller: Client, served: Filled, now_ns: int) -> None:
    events = [each for each in get(caller, "targets")["events"] if each["instance"] == "gpu-2:8002"]
    assert [each["up"] for each in events] == [True, False]
    assert events[0]["time_ns"] - events[1]["time_ns"] == 8 * signals.EVERY


def test_series_have_their_newest_value_with_its_age(caller: Client, served: Filled, now_ns: int) -> None:
    found = get(caller, "series", metric="nv_inference_request_success", match=["instance=gpu-1:8002"])["series"]
    [one] = found
    assert one["labels"]["pool"] == "chat-eu"
    assert (one["kind"], one["value"], one["ended"]) == ("counter", 30 * 59, False)
    assert 0 < one["age_s"] < 120
    assert get(caller, "series", metric="loading_seconds")["series"][0]["ended"] is True
    assert get(caller, "series", metric="no_such_metric")["series"] == []


def test_a_counter_is_a_rate_a_reset_is_said_and_a_gap_is_left_out(caller: Client, served: Filled, now_ns: int) -> None:
    found = get(caller, "series/points", metric="nv_inference_request_success")
    assert (found["as"], found["step_s"]) == ("rate", 30)
    by_instance = {each["labels"]["instance"]: each["points"] for each in found["series"]}
    steady, sick = by_instance["gpu-1:8002"], by_instance["gpu-2:8002"]
    assert {round(point["value"], 6) for point in steady[1:-1]} == {2.0}
    assert sum(point["resets"] for point in sick) == 1
    assert all(point["value"] >= 0 for point in sick)
    starts = [point["start_ns"] for point in sick]
    assert max(later - earlier for earlier, later in itertools.pairwise(starts)) >= 90 * S
    assert len(steady) > len(sick)


def test_a_gauge_is_its_value_and_what_is_asked_for_is_shown(caller: Client, served: Filled, now_ns: int) -> None:
    found = get(caller, "series/points", metric="nv_inference_pending_request_count", step_s=120)
    assert (found["as"], found["step_s"]) == ("value", 120)
    asked = {"metric": "nv_inference_request_success", "as": "value", "match": "instance=~gpu-1.*"}
    points = get(caller, "series/points", **asked)["series"][0]["points"]
    assert points[-1]["value"] > points[0]["value"]


def test_of_a_series_that_is_sampled_seldom_the_first_point_is_of_its_whole_step(
    caller: Client, annexed: Store
) -> None:
    """Points grow longer for it, and the first of them begins before the range."""
    to_ns = time.time_ns() // (600 * S) * 600 * S + 200 * S
    times = [to_ns - 100 * S - back * 300 * S for back in range(8, -1, -1)]
    write(annexed, "seldom", [(at, float(number)) for number, at in enumerate(times)], "gauge", job="a")
    write(annexed, "seldom_total", [(at, 600.0 * number) for number, at in enumerate(times)], "counter", job="a")
    for metric in ("seldom", "seldom_total"):
        [[part], [longer]] = (
            get(caller, "series/points", metric=metric, step_s=600, to=to_ns, **{"from": to_ns - back_s * S})["series"]
            for back_s in (900, 1_800)
        )
        assert part["points"][0]["start_ns"] == to_ns - 1_400 * S
        assert part["points"] == longer["points"][-len(part["points"]) :]


def test_metrics_are_found_by_words_in_their_names(caller: Client, served: Filled, now_ns: int) -> None:
    found = get(caller, "series/metrics", text="pending COUNT")["metrics"]
    assert found == [{"metric": "nv_inference_pending_request_count", "kind": "gauge", "unit": "", "series": 2}]


@pytest.mark.parametrize("match", ["a=~(", "pool=~(?=b)"])
def test_an_expression_that_cannot_be_read_is_named(caller: Client, served: Filled, match: str) -> None:
    response = caller.get("/api/v1/series", {"metric": "nv_energy_us", "match": match})
    assert (response.status_code, response.json()["field"]) == (409, "match")


def test_the_page_lists_targets_what_is_wrong_first(reader: Client, served: Filled, now_ns: int) -> None:
    page = reader.get("/signals").content.decode()
    assert re.findall(r"</span> (up|down|stale)</td>\s*<th", page) == ["down", "up", "up"]
    said = words_of(page_of(reader, "/signals"))
    assert "2 of 3 targets up, ✕ 1 down" in said
    assert "1 former target, not scraped any more" in said
    assert "connection refused" in said
    assert "Went down, came back" in said


def test_the_page_draws_a_metric_with_its_age_and_as_a_table(reader: Client, served: Filled, now_ns: int) -> None:
    response = reader.get("/signals", {"metric": "nv_inference_request_success"})
    said = words_of(response.content.decode())
    assert "counter , 2 series" in said.replace("counter,", "counter ,")
    assert "Per second, in steps of 30 s." in said
    assert "began again" in said
    page = response.content.decode()
    assert '"connectgaps": false' in page
    assert "–</td>" in page  # the gap
    assert re.search(r'href="/signals\?[^"]*match=instance%3Dgpu-1:8002', page)


@pytest.mark.parametrize("way", ["value", "rate"])
def test_an_infinite_value_is_said_and_not_drawn(
    caller: Client, reader: Client, filled: Filled, served: Filled, way: str
) -> None:
    to_ns, metric = time.time_ns(), f"limit_{way}"
    times = [to_ns - n * signals.EVERY for n in range(40, 0, -1)]
    values = [math.inf if n % 8 > 4 else -math.inf if n == 12 else float(n) for n in range(40)]
    write(Store(filled.dsn), metric, list(zip(times, values, strict=True)), "gauge", job="a")
    asked = {"metric": metric, "as": way, "from": to_ns - 900 * S, "to": to_ns}
    assert None in [point["value"] for point in get(caller, "series/points", **asked)["series"][0]["points"]]
    page = reader.get("/signals", asked)
    assert page.status_code == 200
    assert "Infinity" not in page.content.decode()
    assert "∞" in words_of(page.content.decode())


def test_a_search_leads_to_metrics_also_from_another_one(reader: Client, served: Filled, now_ns: int) -> None:
    page = reader.get("/signals", {"text": "pending", "metric": "up", "match": "a=b"}).content.decode()
    assert re.findall(r'metric=(\w+)"', html.unescape(page)) == ["nv_inference_pending_request_count"]
    assert "try fewer letters" in words_of(page_of(reader, "/signals", text="no such thing"))


def test_empty_ranges_say_what_to_do(reader: Client, served: Filled) -> None:
    nothing = {"from": "2026-01-01", "to": "2026-01-02"}
    assert "No target was scraped in this range." in words_of(page_of(reader, "/signals", **nothing))
    assert "No sample of up in this range" in words_of(page_of(reader, "/signals", **nothing, metric="up"))


def test_a_bad_address_is_explained(reader: Client, served: Filled) -> None:
    response = reader.get("/signals", {"metric": "up", "match": "nonsense"})
    assert response.status_code == 400
    assert "is no condition on a label" in response.content.decode()
