"""What operators see of batches, and what they do with them."""

import html
import os
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlplane.accounts.models import Membership
from controlplane.fleet.models import Team, Tenant, Tier
from controlplane.lane import report
from controlplane.lane.backlog import token_mixes
from controlplane.lane.core import states
from controlplane.lane.http import forms
from controlplane.lane.models import Batch, Callback, CallbackSecret, Line, StoredFile, TenantLimits, Worker
from controlplane.lane.objects.folder import Folder
from controlplane.lane.store import callbacks, claims, files, jobs, limits
from forecasting.capacity.assumptions import TokenMix
from tests.support.lane.stored import answer, begun, do_chores, new_job, read

pytestmark = pytest.mark.django_db


@pytest.fixture
def objects(home: Path) -> Folder:
    return Folder(home / "lane")


def half_done(objects: Folder) -> Batch:
    """Two lines answered, one refused, one left."""
    batch, worker = begun(objects, 4), claims.register()
    *first, refused = claims.claim(worker, 3)
    answer(objects, worker, first)
    answer(objects, worker, [refused], status=422)
    batch.refresh_from_db()
    return batch


def text(client: Client, path: str = "/batches") -> str:
    return " ".join(client.get(path).content.decode().split())


def test_the_screen_says_how_far_a_batch_is_and_what_is_not_known(teammate: Client, objects: Folder) -> None:
    assert "No batch was made yet" in text(teammate)
    waits = begun(objects, 4)
    claims.register()
    page = text(teammate)
    assert "0 of 4" in page and '<span class="muted">unknown</span>' in page
    Batch.objects.filter(pk=waits.pk).delete()
    half_done(objects)
    page = text(teammate)
    assert "3 of 4" in page and "/s</span>" in page and "422: 1" in page and "alice" in page
    assert "/cancel" not in page, "a teammate may not"
    assert "text 1" not in page and "alone, who reads them with its API key" in page
    assert "No batch with these filters" in text(teammate, "/batches?tenant=bob")


def test_while_no_lane_runs_lines_an_end_is_unknown(teammate: Client, owner: Client, objects: Folder) -> None:
    half_done(objects)
    Worker.objects.update(leased_until=claims.now() - timedelta(seconds=1))
    assert "unknown: no lane runs lines now" in text(teammate)
    [row] = owner.get("/api/v1/batches").json()["rows"]
    assert row["ends_at"] is None and row["rate_per_s"] > 0


def test_tokens_that_no_answer_says_are_unknown(owner: Client, objects: Folder) -> None:
    batch = half_done(objects)
    assert forms.batch(batch)["usage"]["total_tokens"] == 4
    Batch.objects.update(input_tokens=0, output_tokens=0)
    batch.refresh_from_db()
    [row] = owner.get("/api/v1/batches").json()["rows"]
    assert (row["input_tokens"], row["output_tokens"], forms.batch(batch)["usage"]) == (None, None, None)
    batch.completed = 0
    assert forms.batch(batch)["usage"]["total_tokens"] == 0, "it has used none"


def test_tokens_that_only_some_answers_say_are_unknown(owner: Client, objects: Folder) -> None:
    """Those of the others were taken for all."""
    batch = begun(objects, 3)
    worker = claims.register()
    answer(objects, worker, claims.claim(worker, 1))
    answer(objects, worker, claims.claim(worker, 1), says_tokens=False)
    answer(objects, worker, claims.claim(worker, 1), 422)
    batch.refresh_from_db()
    [row] = owner.get("/api/v1/batches").json()["rows"]
    assert (row["input_tokens"], row["output_tokens"], forms.batch(batch)["usage"]) == (None, None, None)
    assert token_mixes(claims.now()) == {batch.model: TokenMix(1, 1)}


def test_rest_has_the_same(owner: Client, objects: Folder) -> None:
    batch = half_done(objects)
    [row] = owner.get("/api/v1/batches?tenant=alice&status=in_progress").json()["rows"]
    assert (row["total"], row["completed"], row["failed"], row["errors_by_kind"]) == (4, 2, 1, {"422": 1})
    assert row["rate_per_s"] > 0 and row["ends_at"]
    assert owner.get(f"/api/v1/batches/{batch.name}").json()["name"] == batch.name
    assert owner.get("/api/v1/batches/batch_unknown").status_code == 404
    assert owner.get("/api/v1/batches?status=lost").status_code == 422


def test_who_asks_for_one_tenant_reads_of_no_other(objects: Folder) -> None:
    for tenant in ("alice", "bob"):
        Callback.objects.create(job=new_job(objects, tenant), due_at=claims.now())
    assert [each.tenant for each in report.jobs(["alice"])] == ["alice"]


def test_only_operators_cancel_and_failed_lines_run_again(owner: Client, teammate: Client, objects: Folder) -> None:
    batch = half_done(objects)
    assert teammate.post(f"/batches/{batch.name}/cancel").status_code == 403
    assert teammate.post(f"/api/v1/batches/{batch.name}/retry").status_code == 403
    assert owner.post(f"/api/v1/batches/{batch.name}/retry").status_code == 409
    of_tenant, _ = Team.objects.get_or_create(name="search")
    tier, _ = Tier.objects.get_or_create(name="batch")
    Tenant.objects.update_or_create(name=batch.tenant, defaults={"tier": tier, "team": of_tenant})
    Membership.objects.create(user=User.objects.get(username="tom"), team=of_tenant, role="owner")
    assert teammate.post(f"/batches/{batch.name}/cancel").status_code == 302
    do_chores(objects)
    batch.refresh_from_db()
    assert (batch.status, batch.errors_by_kind) == ("cancelled", {"422": 1, "batch_cancelled": 1})
    assert "Retry failed" in text(teammate)

    again = owner.post(f"/api/v1/batches/{batch.name}/retry")
    assert (again.status_code, again.json()["retry_of"]) == (202, batch.name)
    do_chores(objects)
    retried = Batch.objects.get(name=again.json()["name"])
    assert (retried.status, retried.total, retried.tenant) == ("in_progress", 2, batch.tenant)
    assert {it["custom_id"] for it in read(objects, retried.input_file_id)} == {"3", "4"}
    worker = claims.register()
    assert answer(objects, worker, claims.claim(worker, 5)) == 2
    do_chores(objects)
    retried.refresh_from_db()
    assert (retried.status, retried.completed) == ("completed", 2)


def test_a_batch_that_would_end_too_late_hurries_where_that_is_allowed(objects: Folder) -> None:
    at, worker = claims.now(), claims.register()
    batch = begun(objects, 9, "alice")

    def hurries(ended: int, left: timedelta) -> bool:
        begun_at = at - timedelta(hours=1)
        Batch.objects.filter(pk=batch.pk).update(completed=ended, in_progress_at=begun_at, expires_at=at + left)
        [line] = claims.claim(worker, 1)
        return line.hurries

    assert not hurries(1, timedelta(hours=2)), "nobody has allowed it"
    TenantLimits.objects.create(tenant="", hurries=True)
    assert hurries(1, timedelta(hours=2)), "one line an hour"
    assert not hurries(1, timedelta(hours=20))
    assert not hurries(0, timedelta(hours=2)), "its rate is not known"


def test_lines_that_begin_alike_run_together(objects: Folder) -> None:
    batch, worker = begun(objects, 8, "alice"), claims.register()
    Line.objects.filter(batch=batch, number__in=(1, 3, 6)).update(prefix=7)
    assert [it.number for it in claims.claim(worker, 5)] == [2, 4, 5, 7, 8]
    assert [it.number for it in claims.claim(worker, 5)] == [1, 3, 6]


def test_limits_are_those_of_the_tenant_or_else_of_all(objects: Folder) -> None:
    TenantLimits.objects.create(tenant="", max_lines=5, retention_days=2)
    TenantLimits.objects.create(tenant="bob", max_stored_bytes=1)
    assert begun(objects, 4, "alice").status == "in_progress"
    refused = begun(objects, 2, "alice")
    assert (refused.status, refused.problems[0]["code"]) == ("failed", "too_many_queued_requests")
    assert begun(objects, 6, "bob").status == "in_progress", "bob's own limits have no such"
    with pytest.raises(ValueError, match="delete some"):
        limits.check_bytes(limits.of("bob"), "bob", 1)
    worker = claims.register()
    answer(objects, worker, claims.claim(worker, 20))
    do_chores(objects)
    kept = StoredFile.objects.get(tenant="alice", purpose="batch_output")
    assert (kept.expires_at - kept.created_at).days == 2
    assert StoredFile.objects.get(tenant="bob", purpose="batch_output").expires_at is None


def test_jobs_are_bounded_and_kept_for_as_long_as_the_limits_say(owner: Client, objects: Folder) -> None:
    TenantLimits.objects.create(tenant="alice", max_lines=2, max_stored_bytes=1_000, job_retention_hours=1)
    first, second = new_job(objects), new_job(objects)
    with pytest.raises(limits.FullError, match="2 may wait"):
        new_job(objects)
    assert owner.get("/api/v1/batches").json()["rows"] == [], "they are no batches"
    worker = claims.register()
    answer(objects, worker, claims.claim(worker, 0, soonest=1))
    TenantLimits.objects.update(max_lines=0, max_stored_bytes=10)
    with pytest.raises(ValueError, match="delete some"):
        new_job(objects)

    [row] = owner.get("/api/v1/waiting-jobs?tenant=alice").json()["rows"]
    assert (row["counts"]["queued"], row["counts"]["completed"], row["callbacks_pending"]) == (1, 1, 1)
    assert row["oldest_queued_at"] and report.waiting(claims.now())[0] == 1
    page = text(owner)
    assert '<td class="n">1</td> <td class="n">0</td> <td class="n">1</td>' in page.replace("</td><td", "</td> <td")
    assert "1 to be taken" in page and "for " in page and "No batch was made yet" in page
    assert [owner.post(f"{path}/batches/{first.name}/cancel").status_code for path in ("/api/v1", "")] == [404, 404]

    first.refresh_from_db()
    assert first.kept_until == first.ended_at + timedelta(hours=1)
    os.utime(objects.path(second.input_object), (0, 0))
    (segment,) = (objects.path("0" * 32).parent.parent / "segments").iterdir()
    for kept_until, is_there in ((first.kept_until, True), (claims.now(), False)):
        Batch.objects.filter(pk=first.pk).update(kept_until=kept_until)
        jobs.sweep(objects)
        files.sweep(objects)
        assert [objects.path(first.input_object).exists(), segment.exists()] == [is_there] * 2
        assert Batch.objects.filter(pk=first.pk).exists() == is_there
    assert objects.path(second.input_object).exists(), "it waits still"


def test_errors_of_one_kind_are_one_number_whatever_was_answered(objects: Folder) -> None:
    batch = begun(objects, 3)
    lines = Line.objects.filter(batch=batch).order_by("number")
    for line, status in zip(lines, (200, 500, 500), strict=True):
        Line.objects.filter(pk=line.pk).update(state=states.REFUSED, code=states.TOO_LONG_CODE, status_code=status)
    (standing,) = report.standings([batch], claims.now())
    assert standing.errors_by_kind == {states.TOO_LONG_CODE: 3}


def test_a_secret_of_callbacks_is_shown_once_and_a_wrong_one_refused(owner: Client, home: Path) -> None:
    path = "/admin/lane/callbacksecret/add/"
    assert "followed by base64" in owner.post(path, {"tenant": "alice", "secret": "whsec_short"}).content.decode()
    shown = html.unescape(owner.post(path, {"tenant": "alice", "secret": ""}, follow=True).content.decode())
    secret = CallbackSecret.objects.get(tenant="alice").secret
    assert secret.startswith("whsec_") and secret in shown
    assert secret not in html.unescape(owner.get("/admin/lane/callbacksecret/").content.decode())
    owner.post(path, {"tenant": "bob", "secret": secret})
    assert CallbackSecret.objects.get(tenant="bob").secret == secret
    assert callbacks.secret_for("bob") == "" and callbacks.secret_for("carol").startswith("whsec_")
