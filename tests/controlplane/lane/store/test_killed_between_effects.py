"""A lane that is killed before or after any effect on disk or database loses no line, and doubles none."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper

from controlplane.lane.core import states
from controlplane.lane.models import Batch, CallbackSecret, StoredFile, Worker
from controlplane.lane.objects import Objects
from controlplane.lane.store import chores, claims
from tests.support.lane.process import a_line, jsonl
from tests.support.lane.stored import EVENTS, TENANT, answer, check_ended, new_batch, new_job, write_events

LINES, PLACES = 5, 2
ACCEPTING = 4  # effects before a job is accepted: its text, its place and the folder's, its rows

pytestmark = pytest.mark.django_db(transaction=True)


class Killed(BaseException):
    """Nothing after it is done, and nothing catches it."""


@contextmanager
def killed_at(number: int, *, after: bool) -> Iterator[list[str]]:
    """Ends the block at the effect of this number, which is done or not. Yields the effects that have begun."""
    effects: list[str] = []

    def counted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def effect(*arguments: Any, **named: Any) -> Any:
            is_dead = len(effects) >= number  # what closes after it has no effect
            if not is_dead:
                effects.append(name)
            if is_dead or (len(effects) == number and not after):
                if connection.connection is not None:
                    connection.connection.rollback()
                raise Killed
            result = call(*arguments, **named)
            if len(effects) == number:
                raise Killed
            return result

        return effect

    with (
        patch.object(os, "fsync", counted("fsync", os.fsync)),
        patch.object(os, "fdatasync", counted("fdatasync", os.fdatasync)),
        patch.object(Path, "rename", counted("rename", Path.rename)),
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


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_whatever_it_is_killed_at_each_line_has_one_result(home: Path, after: bool) -> None:
    objects = Objects(home / "lane")
    text = jsonl(a_line(f"{it}", f"text {it}") for it in range(1, LINES + 1))
    number = 0
    while True:
        number += 1
        batch = new_batch(objects, text)
        with killed_at(number, after=after) as effects:
            live(objects)
        let_leases_end()
        live(objects)
        assert check_ended(objects, batch) == {}
        assert batch.status == states.COMPLETED
        assert not Worker.objects.exists()
        assert StoredFile.objects.filter(pk=batch.output_file_id).count() == 1
        if len(effects) < number:
            break
    assert number > 20, "effects are not counted any more"


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_whatever_it_is_killed_at_a_job_that_was_accepted_has_one_result(home: Path, after: bool) -> None:
    objects = Objects(home / "lane")
    CallbackSecret.objects.create(tenant=TENANT)
    number = 0
    while True:
        number += 1
        accepted: list[Batch] = []
        with killed_at(number, after=after) as effects:
            accepted.append(new_job(objects, stream=True))
            live(objects)
        let_leases_end()
        live(objects)
        assert len(accepted) == (number > ACCEPTING)
        for job in Batch.objects.all():
            assert check_ended(objects, job) == {}
            assert job.status == states.COMPLETED
        assert Batch.objects.count() <= 1 and not Worker.objects.exists()
        assert Batch.objects.count() >= len(accepted)
        Batch.objects.all().delete()
        if len(effects) < number:
            break
    assert number > ACCEPTING + 5, "effects are not counted any more"


def test_a_line_that_three_workers_died_of_is_given_up_and_no_other(home: Path) -> None:
    objects = Objects(home / "lane")
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
