"""A batch ends although results or its input are gone, such as with a database that was restored: it said `finalizing` for ever."""

from datetime import timedelta

import pytest

from controlplane.lane.models import Batch, Line
from controlplane.lane.objects.port import Objects
from controlplane.lane.store import chores, claims, jobs
from tests.support.lane.stored import answer, begun, do_chores, new_job, read

pytestmark = pytest.mark.django_db(transaction=True)
LINES = 5


def finalizing(objects: Objects, since: timedelta) -> Batch:
    """A batch of which each line was answered, and which waits for its files for so long."""
    batch = begun(objects, LINES)
    worker = claims.register()
    answer(objects, worker, claims.claim(worker, LINES))
    Batch.objects.update(finalizing_at=claims.now() - since)
    return batch


@pytest.mark.parametrize("gone", [{"segment": 1}, {"result_length": 10_000}], ids=["gone", "cut off"])
def test_lines_whose_results_are_gone_are_errors_and_the_others_are_not(objects: Objects, gone: dict[str, int]) -> None:
    batch = finalizing(objects, timedelta(minutes=11))
    Line.objects.filter(number__gt=2).update(**gone)
    do_chores(objects)
    batch.refresh_from_db()
    assert (batch.status, batch.completed, batch.failed) == ("completed", 2, 3)
    assert batch.errors_by_kind == {"result_lost": 3}
    assert [it["custom_id"] for it in read(objects, batch.output_file_id)] == ["1", "2"]
    errors = read(objects, batch.error_file_id)
    assert [(it["custom_id"], it["error"]["code"]) for it in errors] == [(f"{it}", "result_lost") for it in (3, 4, 5)]


def test_what_is_away_for_a_moment_is_waited_for(objects: Objects) -> None:
    batch = finalizing(objects, timedelta(minutes=9))
    objects.remove_segments(batch.pk)
    with pytest.raises(FileNotFoundError):
        do_chores(objects)
    batch.refresh_from_db()
    assert batch.status == "finalizing"


def test_without_input_and_results_it_fails_after_a_day_and_says_why(objects: Objects) -> None:
    """Of an empty place nothing shows that it is the right one."""
    batch = finalizing(objects, timedelta(hours=23))
    objects.remove_segments(batch.pk)
    objects.remove(batch.input_object)
    with pytest.raises(FileNotFoundError):
        do_chores(objects)
    batch.refresh_from_db()
    assert batch.status == "finalizing"
    Batch.objects.update(finalizing_at=claims.now() - timedelta(hours=25), chore_until=None)
    do_chores(objects)
    batch.refresh_from_db()
    assert (batch.status, batch.completed, batch.failed) == ("failed", 0, LINES)
    [problem] = batch.problems
    assert problem["code"] == "file_not_found"
    assert "input file is no longer stored" in problem["message"]
    assert chores.next_chore() is None
    assert not Line.objects.exists()


def test_a_job_whose_result_is_gone_has_failed_and_says_so(objects: Objects) -> None:
    """Whoever asked for it was told to try again shortly, until it was deleted."""
    job, worker = new_job(objects), claims.register()
    answer(objects, worker, claims.claim(worker, 0, soonest=1))
    assert jobs.read(job.tenant, job.name, job.kind, objects).status == "completed"
    objects.remove_segments(job.pk)
    with pytest.raises(FileNotFoundError):
        jobs.read(job.tenant, job.name, job.kind, objects)
    Batch.objects.update(ended_at=claims.now() - timedelta(minutes=11))
    it = jobs.read(job.tenant, job.name, job.kind, objects)
    assert (it.status, jobs.response(it)["error"]["code"]) == ("failed", "result_lost")
