"""Jobs of the plan: they report, end, and are taken up again where a worker ended."""

import threading
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from controlplane.planning import jobs
from controlplane.planning.jobs import JobRefusedError, Progress
from controlplane.planning.models import PlanJob
from tests.support.wait import eventually

pytestmark = pytest.mark.django_db(transaction=True)
STATE = PlanJob.State


@pytest.fixture(autouse=True)
def kinds(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(jobs, "_kinds", dict(jobs._kinds))
    monkeypatch.setattr(jobs, "REPORT_EVERY_S", 0.0)

    @jobs.kind("count")
    def count(request: Mapping[str, Any], progress: Progress) -> Mapping[str, Any]:
        for step in range(request.get("to", 3)):
            progress.report(step, request.get("to", 3), f"step {step}")
        return {"counted": request.get("to", 3)}

    @jobs.kind("fail")
    def fail(request: Mapping[str, Any], progress: Progress) -> Mapping[str, Any]:
        raise ValueError("to=-1 is below 0: use 3")

    yield
    jobs.stopping.clear()


def claimed(holder: str) -> PlanJob:
    job = jobs.claim(holder)
    assert job is not None
    return job


def test_a_job_runs_to_its_result() -> None:
    job = jobs.start("count", {"to": 5}, "olga")
    assert (job.state, job.share) == (STATE.QUEUED, None)
    assert jobs.run_queued() == 1
    job.refresh_from_db()
    assert (job.state, job.result, job.done, job.total, job.author) == (STATE.DONE, {"counted": 5}, 5, 5, "olga")


def test_the_same_open_job_is_not_started_twice() -> None:
    assert jobs.start("count").pk == jobs.start("count").pk != jobs.start("count", {"to": 9}).pk


def test_an_unknown_kind_is_refused_with_those_there_are() -> None:
    with pytest.raises(JobRefusedError, match=r"kind='brew' is unknown: use .*count"):
        jobs.start("brew")


def test_a_worker_that_lives_keeps_a_job_that_seldom_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "BEAT_S", 0.01)
    began, may_end = threading.Event(), threading.Event()

    @jobs.kind("silent")
    def silent(request: Mapping[str, Any], progress: Progress) -> Mapping[str, Any]:
        began.set()
        may_end.wait()
        return {}

    job = jobs.start("silent")
    worker = threading.Thread(target=jobs.run_queued)
    worker.start()
    try:
        began.wait()
        PlanJob.objects.filter(pk=job.pk).update(seen_at=timezone.now() - 2 * jobs.LOST)
        eventually(lambda: PlanJob.objects.get(pk=job.pk).seen_at > timezone.now() - jobs.LOST)
        assert jobs.claim("another worker") is None
    finally:
        may_end.set()
        worker.join()
    job.refresh_from_db()
    assert (job.state, job.attempt) == (STATE.DONE, 1)


def test_a_failed_job_says_why() -> None:
    job = jobs.start("fail")
    jobs.run_queued()
    job.refresh_from_db()
    assert (job.state, job.error) == (STATE.FAILED, "to=-1 is below 0: use 3")


def test_a_queued_job_is_cancelled_at_once_and_a_running_one_at_its_next_report() -> None:
    queued = jobs.start("count")
    jobs.cancel(queued)
    assert queued.state == STATE.CANCELLED
    running = jobs.start("count")
    mine = claimed("a")
    jobs.cancel(running)
    assert running.state == STATE.RUNNING
    mine.cancel_requested = False  # as the worker read it before
    jobs.run(mine)
    running.refresh_from_db()
    assert running.state == STATE.CANCELLED


def test_a_job_of_a_worker_that_ended_is_taken_up_by_another_and_the_first_writes_nothing_more() -> None:
    jobs.start("count")
    first = claimed("a")
    assert jobs.claim("b") is None
    PlanJob.objects.update(seen_at=timezone.now() - jobs.LOST - timedelta(seconds=1))
    second = claimed("b")
    assert (second.pk, second.attempt) == (first.pk, 2)
    jobs.run(first)
    first.refresh_from_db()
    assert (first.state, first.holder) == (STATE.RUNNING, "b")
    jobs.run(second)
    first.refresh_from_db()
    assert first.state == STATE.DONE


def test_a_job_whose_workers_keep_ending_is_given_up() -> None:
    job = jobs.start("count")
    for _ in range(jobs.MAX_ATTEMPTS):
        claimed("a")
        PlanJob.objects.update(seen_at=timezone.now() - jobs.LOST - timedelta(seconds=1))
    assert jobs.claim("a") is None
    job.refresh_from_db()
    assert job.state == STATE.FAILED
    assert "ended 3 times" in job.error


def test_a_worker_that_stops_gives_its_job_back() -> None:
    job = jobs.start("count")
    mine = claimed("a")
    jobs.stopping.set()
    jobs.run(mine)
    job.refresh_from_db()
    assert (job.state, job.attempt) == (STATE.QUEUED, 0)
    jobs.stopping.clear()
    assert jobs.run_queued() == 1


def test_a_worker_runs_no_more_than_some_at_a_time() -> None:
    for to in range(jobs.AT_ONCE + 1):
        jobs.start("count", {"to": to})
    for _ in range(jobs.AT_ONCE):
        claimed("a")
    assert jobs.claim("a") is None
    claimed("b")


def test_ended_jobs_are_removed_scheduled_ones_sooner() -> None:
    now = timezone.now()
    ended = {
        "new": PlanJob(author="", ended_at=now),
        "scheduled": PlanJob(author="", ended_at=now - jobs.SCHEDULED_KEPT - timedelta(minutes=1)),
        "failed": PlanJob(author="", ended_at=now - jobs.SCHEDULED_KEPT - timedelta(minutes=1), state=STATE.FAILED),
        "manual": PlanJob(author="olga", ended_at=now - jobs.SCHEDULED_KEPT - timedelta(minutes=1)),
        "old": PlanJob(author="olga", ended_at=now - jobs.KEPT - timedelta(minutes=1)),
    }
    for name, job in ended.items():
        job.kind, job.state = name, job.state if job.state == STATE.FAILED else STATE.DONE
        job.save()
    assert jobs.tidy() == 2
    assert set(PlanJob.objects.values_list("kind", flat=True)) == {"new", "failed", "manual"}
