"""A lane that is killed after any effect on disk or database loses no line, and doubles none."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import obstore
import pytest
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper

from controlplane.lane.core import states
from controlplane.lane.models import Batch, CallbackSecret, StoredFile, Worker
from controlplane.lane.objects import bucket, folder
from controlplane.lane.objects.bucket import Bucket
from controlplane.lane.objects.folder import Folder
from controlplane.lane.objects.port import Objects
from controlplane.lane.store import chores, claims, files
from tests.support.lane.process import a_line, jsonl
from tests.support.lane.stored import EVENTS, TENANT, answer, check_ended, new_batch, new_job, write_events

LINES, PLACES = 3, 2
ACCEPTING = {
    Folder: 3,
    Bucket: 2,
}  # effects before a job is accepted: its text, in a folder the folder's entry, its rows

pytestmark = pytest.mark.django_db(transaction=True)


class Killed(BaseException):
    """Nothing after it is done, and nothing catches it."""


@contextmanager
def killed_at(number: int) -> Iterator[list[str]]:
    """Ends the block after the effect of this number, and so before the next. Yields the effects that were done."""
    effects: list[str] = []

    def counted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def effect(*arguments: Any, **named: Any) -> Any:
            if len(effects) >= number:  # what closes after it has no effect
                if connection.connection is not None:
                    connection.connection.rollback()
                raise Killed
            effects.append(name)
            result = call(*arguments, **named)
            if len(effects) == number:
                raise Killed
            return result

        return effect

    with (
        patch.object(os, "fsync", counted("fsync", os.fsync)),
        patch.object(os, "fdatasync", counted("fdatasync", os.fdatasync)),
        patch.object(obstore, "put", counted("put", obstore.put)),
        patch.object(obstore, "delete", counted("delete", obstore.delete)),
        patch.object(BaseDatabaseWrapper, "_commit", counted("commit", vars(BaseDatabaseWrapper)["_commit"])),
    ):
        try:
            yield effects
        except Killed:
            connection.close()


def live(objects: Objects) -> None:
    """All that a lane does until nothing is to be done."""
    worker = claims.register()
    while Batch.objects.filter(status__in=states.OPEN).exists():
        claims.take_over()
        while (chore := chores.next_chore()) is not None:
            chores.do(chore, objects)
        if lines := claims.claim(worker, PLACES, soonest=1) or claims.claim(worker, 1, alone=True):
            for line in (line for line in lines if line.streams):
                write_events(objects, line)
            answer(objects, worker, lines, events_bytes=len(EVENTS) if lines[0].streams else 0)
    claims.take_over()
    claims.leave(worker)


def let_leases_end() -> None:
    past = claims.now() - timedelta(seconds=1)
    Worker.objects.update(leased_until=past)
    Batch.objects.exclude(chore_until=None).update(chore_until=past)


def check_swept(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is left is what files have."""
    for module in (folder, bucket):
        monkeypatch.setattr(module, "GRACE_S", -1.0)
    files.sweep(objects)
    left = {key for keys in objects.old() for key in keys}
    assert (left, list(objects.batches())) == (set(StoredFile.objects.values_list("object", flat=True)), [])


def test_whatever_it_is_killed_at_each_line_has_one_result(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    text = jsonl(a_line(f"{it}", f"text {it}") for it in range(1, LINES + 1))
    number = 0
    while True:
        number += 1
        batch = new_batch(objects, text)
        with killed_at(number) as effects:
            live(objects)
        let_leases_end()
        live(objects)
        assert check_ended(objects, batch) == {}
        assert batch.status == states.COMPLETED
        assert not Worker.objects.exists()
        assert StoredFile.objects.filter(pk=batch.output_file_id).count() == 1
        if len(effects) < number:
            break
    assert number > 15, "effects are not counted any more"
    check_swept(objects, monkeypatch)


def test_whatever_it_is_killed_at_a_job_that_was_accepted_has_one_result(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepting = ACCEPTING[type(objects)]
    CallbackSecret.objects.create(tenant=TENANT)
    number = 0
    while True:
        number += 1
        accepted: list[Batch] = []
        with killed_at(number) as effects:
            accepted.append(new_job(objects, stream=True))
            live(objects)
        let_leases_end()
        live(objects)
        assert len(accepted) == (number > accepting)
        for job in Batch.objects.all():
            assert check_ended(objects, job) == {}
            assert job.status == states.COMPLETED
        assert Batch.objects.count() <= 1 and not Worker.objects.exists()
        assert Batch.objects.count() >= len(accepted)
        Batch.objects.all().delete()
        if len(effects) < number:
            break
    assert number > accepting + 3, "effects are not counted any more"
    check_swept(objects, monkeypatch)


def test_a_line_that_three_workers_died_of_is_given_up_and_no_other(home: Path) -> None:
    objects = Folder(home / "lane")
    batch = new_batch(objects, jsonl(a_line(f"{it}", f"text {it}") for it in range(1, LINES + 1)))
    deaths = 0
    while Batch.objects.filter(status__in=states.OPEN).exists():
        while (chore := chores.next_chore()) is not None:
            chores.do(chore, objects)
        worker = claims.register()
        lines = claims.claim(worker, PLACES) or claims.claim(worker, 1, alone=True)
        if any(line.number == 2 for line in lines):
            deaths += 1
            let_leases_end()
            claims.take_over()
        else:
            answer(objects, worker, lines)
            claims.leave(worker)
    assert (deaths, check_ended(objects, batch)) == (states.MAX_DEATHS, {states.LOST_CODE: 1})
    batch.refresh_from_db()
    assert (batch.status, batch.completed, batch.failed) == (states.COMPLETED, LINES - 1, 1)
