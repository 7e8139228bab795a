"""The form that starts a benchmark, and the page of a job with its steps."""

from dataclasses import asdict

import pytest
from django.test import Client

from controlplane.planning.core.judging import StepFigures
from controlplane.planning.models import PlanJob
from controlplane.telemetry.query import answers
from tests.support.planning.benchmarked import benchmarked_pool, no_store
from tests.support.web.people import member

WANTED = {
    "pool": "chat-eu",
    "replica": "r0",
    "gpu": "h100",
    "input_tokens": "500",
    "output_tokens": "80",
    "ttft_ms": "300",
}
STEP = StepFigures(4.0, 120, 100, 97, True, False, 0.21, 1.4, 3.2, 501.0, 80.0, 2, 31.0, 3.9)


@pytest.fixture(autouse=True)
def pool(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "store", no_store)
    benchmarked_pool(1)


@pytest.fixture
def planner() -> Client:
    user = member("petra", "owner")
    client = Client()
    client.force_login(user)
    return client


def words(client: Client, path: str) -> str:
    return " ".join(client.get(path).content.decode().split())


def test_the_form_says_what_it_knows_and_what_must_be_entered(planner: Client) -> None:
    text = words(planner, "/planning/benchmark?pool=chat-eu")
    assert "<option >r0</option>" in text
    assert "The ledger has none of this pool" in text and "No latency objective judges this pool" in text
    assert "Empty: no limit" in text


def test_a_refusal_is_shown_above_the_form_which_keeps_what_was_entered(planner: Client) -> None:
    response = planner.post("/planning/benchmark", WANTED)
    text = response.content.decode()
    assert response.status_code == 409 and not PlanJob.objects.exists()
    assert "It is not known whether it takes users&#x27; traffic" in text and "confirm it" in text
    assert 'name="input_tokens" value="500"' in text
    assert (
        "ttft_ms=&#x27;fast&#x27; is no number"
        in planner.post("/planning/benchmark", WANTED | {"ttft_ms": "fast"}).content.decode()
    )


def test_a_planner_starts_it_and_comes_to_its_page(planner: Client) -> None:
    response = planner.post("/planning/benchmark", WANTED | {"despite_traffic": "1", "limit_s": "600"})
    job = PlanJob.objects.get()
    assert (response.status_code, response["Location"]) == (302, f"/planning/jobs/{job.pk}")
    assert (job.kind, job.author) == ("benchmark", "petra")
    numbers = {"input_tokens": 500.0, "output_tokens": 80.0, "ttft_ms": 300.0, "limit_s": 600}
    assert job.request == {"pool": "chat-eu", "replica": "r0", "gpu": "h100", **numbers, "despite_traffic": True}
    text = words(planner, response["Location"])
    assert f'hx-get="/planning/jobs/{job.pk}?part=job"' in text and ">Cancel<" in text


def test_the_page_of_a_job_shows_its_steps(reader: Client) -> None:
    lost = {**asdict(STEP), "requests_per_s": 8.0, "kept": False, "good": 40}
    result = {
        "replica": "r0",
        "server": "vllm 0.32.0",
        "objective": "TTFT at most 300 ms for 95 %",
        "steps": [asdict(STEP), lost],
    }
    job = PlanJob.objects.create(kind="benchmark", state="running", request={"pool": "chat-eu"}, result=result)
    text = words(reader, f"/planning/jobs/{job.pk}?part=job")
    assert "Steps measured so far" in text and "97 %" in text.replace("\u202f", " ") and "lost" in text
    assert "r0 (vllm 0.32.0)" in text and ">Cancel<" not in text
    PlanJob.objects.update(
        state="done", result=result | {"requests_per_s": 4.0, "note": "4 requests/s kept the objective."}
    )
    text = words(reader, f"/planning/jobs/{job.pk}")
    assert "hx-get=" not in text.split('id="job"')[1].split(">")[0] and "4 requests/s kept the objective." in text


def test_others_may_look_and_not_start(reader: Client) -> None:
    assert "To start it: Ask an owner of" in words(reader, "/planning/benchmark")
    assert reader.post("/planning/benchmark", WANTED).status_code == 403
