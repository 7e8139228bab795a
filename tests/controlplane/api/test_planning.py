"""Forecasts, plans, what-ifs, worksheets and jobs over REST."""

import csv
import io
import itertools

import pytest
from django.test import Client

from controlplane.accounts.models import ApiToken
from controlplane.planning.models import GpuType, StoredForecast
from tests.support.planning.fleet import plan_fleet
from tests.support.planning.stored import store_forecasts, store_record
from tests.support.web.people import member

API = "/api/v1/planning"


@pytest.fixture
def stored(db: None) -> list[StoredForecast]:
    plan_fleet()
    return store_forecasts()


@pytest.fixture
def planner(db: None) -> Client:
    _, text = ApiToken.objects.issue(member("petra", "owner"), "tests", ["admin"])
    return Client(headers={"authorization": f"Bearer {text}"})


def test_forecasts_can_be_chosen_by_series_and_read_by_step(caller: Client, stored: list[StoredForecast]) -> None:
    body = caller.get(f"{API}/forecasts", {"model": "chat-large", "tier": "premium", "measure": "requests"}).json()
    assert [row["horizon_s"] for row in body["forecasts"]] == [1800, 604_800]
    first = caller.get(f"{API}/forecasts/{body['forecasts'][0]['number']}").json()
    assert len(first["forecast"]) == first["steps"] == 2
    step = first["forecast"][0]
    assert step["p5"] < step["p10"] < step["p50"] < step["p90"] < step["p95"] < step["p99"]
    assert step["p50"] == pytest.approx(stored[0].to_forecast().median[0], rel=1e-5)


def test_a_forecast_that_cannot_be_read_has_no_peak_and_says_why(caller: Client, stored: list[StoredForecast]) -> None:
    StoredForecast.objects.filter(pk=stored[0].pk).update(quantiles={"0.5": [1.0]})
    rows = {row["number"]: row for row in caller.get(f"{API}/forecasts").json()["forecasts"]}
    assert len(rows) == len(stored) and rows[stored[1].pk]["peak_p90"] > 0
    one = caller.get(f"{API}/forecasts/{stored[0].pk}").json()
    assert (one["steps"], one["peak_p90"], one["skill"], one["forecast"]) == (0, None, None, [])
    assert "cannot be read" in one["reason"] and rows[stored[0].pk]["reason"] == one["reason"]


def test_the_record_has_what_was_forecast_and_null_where_nothing_was(
    caller: Client, stored: list[StoredForecast], served: object
) -> None:
    store_record(stored[0], days=1)
    body = caller.get(f"{API}/forecasts/{stored[0].pk}/record", {"from": "now-3d"}).json()
    assert {step["p90"] for step in body["steps"]} == {18.0, None}
    assert all(
        later["start_s"] - step["start_s"] == body["step_s"]
        for step, later in zip(body["steps"], body["steps"][1:], strict=False)
    )


def test_a_plan_adds_up(caller: Client, stored: list[StoredForecast], served: object) -> None:
    plan = caller.get(f"{API}/plan", {"hours": 48}).json()
    assert {pool["pool"] for pool in plan["pools"]} == {
        "chat-large-eu",
        "chat-large-us",
        "chat-small-eu",
        "chat-small-us",
    }
    for pool in plan["pools"]:
        assert len(pool["hours"]) == 48
        assert sum(hour["gpu_hours"] for hour in pool["hours"]) == pytest.approx(pool["gpu_hours"])
        assert sum(hour["cost_usd"] for hour in pool["hours"]) == pytest.approx(pool["cost_usd"])
        assert all(hour["reason"] for hour in pool["hours"])
    assert sum(pool["cost_usd"] for pool in plan["pools"]) == pytest.approx(plan["cost_usd"])


def test_the_csv_of_a_plan_has_its_hours(caller: Client, stored: list[StoredForecast], served: object) -> None:
    chosen = {"hours": 3, "pool": "chat-large-eu"}
    GpuType.objects.filter(name="h100").update(name="=1+1")
    hours = caller.get(f"{API}/plan", chosen).json()["pools"][0]["hours"]
    response = caller.get(f"{API}/plan.csv", chosen)
    assert response["Content-Type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(response.content.decode())))
    assert [int(row["replicas"]) for row in rows] == [hour["replicas"] for hour in hours]
    assert {(row["forecaster"], row["skill"], row["history_days"]) for row in rows} == {("seasonal_day", "0.38", "9.0")}
    assert {row["gpu"] for row in rows} == {"'=1+1"}, "no formula of a spreadsheet"
    assert {row["pool"] for row in rows} == {"chat-large-eu"} and rows[0]["hour"].endswith(":00:00Z")


def test_what_should_be_warm_is_said_a_cold_start_ahead(
    caller: Client, stored: list[StoredForecast], served: object
) -> None:
    pools = caller.get(f"{API}/warm").json()["pools"]
    assert {pool["horizon_s"] for pool in pools} == {240 + 60}
    changes = next(pool["changes"] for pool in pools if pool["pool"] == "chat-large-eu")
    more = [after for before, after in itertools.pairwise(changes) if after["replicas"] > before["replicas"]]
    assert more and all(change["warm_at_s"] - change["start_by_s"] == 300 for change in more)


def test_scenarios_stand_beside_the_plan_as_forecast(
    caller: Client, stored: list[StoredForecast], served: object
) -> None:
    chosen = {"hours": 24, "scenario": ["peak=2", "lost=moon"]}
    base, double, impossible = caller.get(f"{API}/what-if", chosen).json()["scenarios"]
    assert (base["scenario"], double["scenario"]) == ("", "peak=2")
    assert double["totals"]["peak_rps"] == pytest.approx(2 * base["totals"]["peak_rps"])
    assert len(double["replicas"]) == 24 and max(double["replicas"]) == double["totals"]["peak_replicas"]
    assert impossible["totals"] is None and "eu, us" in impossible["error"]


def test_a_worksheet_is_the_same_as_csv(caller: Client, stored: list[StoredForecast], served: object) -> None:
    sheet = caller.get(f"{API}/worksheet").json()
    rows = list(csv.DictReader(io.StringIO(caller.get(f"{API}/worksheet.csv").content.decode())))
    assert [float(row["gpu_hours"]) for row in rows] == [row["gpu_hours"] for row in sheet["rows"]]
    assert {row["quarter"] for row in rows} == {sheet["quarter"]}
    total = sheet["rows"][-1]
    assert total["cost_usd"] == pytest.approx(sum(row["cost_usd"] for row in sheet["rows"] if row["month"]))


@pytest.mark.parametrize(
    ("path", "parameters", "status", "field"),
    [
        ("plan", {"pool": "chat-lage-eu"}, 409, "pool"),
        ("plan", {"hours": "0"}, 422, "hours"),
        ("plan", {"level": "nan"}, 422, "level"),
        ("what-if", {"scenario": "peek=2"}, 409, "scenario"),
        ("what-if", {"scenario": "peak=nan"}, 409, "scenario"),
        ("worksheet", {"quarter": "2027-Q5"}, 422, "quarter"),
        ("worksheet", {"quarter": "2020-Q1"}, 409, "quarter"),
        ("forecasts", {"measure": "love"}, 422, "measure"),
    ],
)
def test_bad_input_names_the_field_and_the_remedy(
    caller: Client,
    stored: list[StoredForecast],
    served: object,
    path: str,
    parameters: dict[str, str],
    status: int,
    field: str,
) -> None:
    response = caller.get(f"{API}/{path}", parameters)
    body = response.json()
    assert (response.status_code, body["field"]) == (status, field)
    assert response["Content-Type"] == "application/problem+json" and body["remedy"]


def test_a_planner_starts_watches_and_cancels_a_job(planner: Client) -> None:
    response = planner.post(f"{API}/jobs", {"kind": "refresh"}, content_type="application/json")
    assert response.status_code == 202
    number = response.json()["number"]
    assert planner.post(f"{API}/jobs", {"kind": "refresh"}, content_type="application/json").json()["number"] == number
    assert planner.get(f"{API}/jobs/{number}").json()["state"] == "queued"
    assert planner.post(f"{API}/jobs/{number}/cancel").json()["state"] == "cancelled"
    assert planner.post(f"{API}/jobs", {"kind": "dance"}, content_type="application/json").status_code == 422
