"""Jobs of planners on pages: progress, starting and cancelling, and who may."""

import pytest
from django.test import Client

from controlplane.planning.models import PlanJob
from tests.support.planning.stored import running_job
from tests.support.web.people import logged_in, member


@pytest.fixture
def planner(db: None) -> Client:
    return logged_in(member("petra", "owner"))


def test_a_running_job_shows_its_progress_and_renews_itself(reader: Client) -> None:
    job = running_job(done=40, total=200)
    text = " ".join(reader.get("/planning/jobs").content.decode().split())
    assert 'value="20"' in text and "40 of 200" in text and "prophet" in text
    assert f'hx-get="/planning/jobs?open={job.pk}"' in text and 'hx-trigger="every 2s"' in text


def test_the_page_is_renewed_when_a_job_has_ended(reader: Client) -> None:
    job = running_job()
    assert "HX-Trigger" not in reader.get(f"/planning/jobs?open={job.pk}").headers
    PlanJob.objects.update(state=PlanJob.State.DONE)
    ended = reader.get(f"/planning/jobs?open={job.pk}")
    assert ended.headers["HX-Trigger"] == "job-ended"
    assert b"hx-trigger" not in ended.content
    PlanJob.objects.update(state=PlanJob.State.FAILED, error="The store does not answer.")
    assert "The store does not answer." in reader.get("/planning/jobs").content.decode()


def test_others_may_look_and_neither_start_nor_cancel(reader: Client) -> None:
    job = running_job()
    text = reader.get("/planning").content.decode()
    assert "Renew all forecasts" not in text and ">cancel<" not in text
    assert reader.post("/planning/jobs/start", {"kind": "refresh"}).status_code == 403
    assert reader.post(f"/planning/jobs/{job.pk}/cancel").status_code == 403


def test_a_planner_starts_and_cancels_a_job_of_a_kind_that_people_start(planner: Client) -> None:
    response = planner.post("/planning/jobs/start", {"kind": "dance"}, follow=True)
    assert "is no job that can be started here" in response.content.decode()
    assert not PlanJob.objects.exists()
    assert "Renew all forecasts now" in planner.get("/planning").content.decode()
    response = planner.post("/planning/jobs/start", {"kind": "refresh", "next": "/planning/plan?hours=24"})
    assert (response.status_code, response["Location"]) == (302, "/planning/plan?hours=24")
    job = PlanJob.objects.get()
    assert (job.kind, job.author, job.state) == ("refresh", "petra", "queued")
    assert planner.post(f"/planning/jobs/{job.pk}/cancel", {"next": "//elsewhere"})["Location"] == "/planning"
    job.refresh_from_db()
    assert job.state == "cancelled"
