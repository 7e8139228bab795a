"""A streamed response is begun again only while nobody has read an event of it, and who has read one reads the same ever after."""

from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

import pytest

from controlplane.lane.core import states
from controlplane.lane.core.states import Again
from controlplane.lane.models import Batch, Line, Worker
from controlplane.lane.objects.port import Objects
from controlplane.lane.store import claims, events
from controlplane.lane.store.claims import Claimed, Result
from controlplane.lane.store.events import BEGIN, More
from tests.support.lane.stored import EVENTS, answer, new_job, write_events

pytestmark = pytest.mark.django_db


class Run(NamedTuple):
    objects: Objects
    job: Batch
    worker: int
    line: Claimed

    def read(self) -> More:
        return events.after(self.job.tenant, self.job.name, self.objects, BEGIN)


@pytest.fixture
def run(objects: Objects) -> Run:
    job, worker = new_job(objects, stream=True), claims.register()
    [line] = claims.claim(worker, 0, soonest=1)
    assert line.streams
    out = Run(objects, job, worker, line)
    write_events(objects, line)
    return out


def die(run: Run) -> None:
    Worker.objects.filter(pk=run.worker).update(leased_until=claims.now() - timedelta(seconds=1))
    claims.take_over()


def leave(run: Run) -> None:
    claims.leave(run.worker)


def break_off(run: Run) -> None:
    assert claims.commit([Result(run.line, Again(0.0), 0)]) == 1


@pytest.mark.parametrize(("ends", "code"), [(die, "worker_lost"), (leave, "worker_lost"), (break_off, "stream_broken")])
@pytest.mark.parametrize("is_read", [False, True])
def test_it_begins_again_only_if_nobody_has_read(
    run: Run, ends: Callable[[Run], None], code: str, is_read: bool
) -> None:
    before = run.read() if is_read else None
    ends(run)
    after = run.read()
    write_events(run.objects, run.line)  # a worker that is late
    assert run.read() == after
    if before is not None:
        assert (after.events[:-1], after.ended, before.ended) == (before.events, True, False)
        assert b'"type":"response.failed"' in after.events[-1] and code.encode() in after.events[-1]
        assert Line.objects.get().state == states.REFUSED
        return
    assert (len(after.events), after.ended, Line.objects.get().state) == (2, False, states.WAITING)
    worker = claims.register()
    [line] = claims.claim(worker, 0, soonest=1)
    write_events(run.objects, line)
    assert [*run.read().events[2:]] == [part + b"\n\n" for part in EVENTS.split(b"\n\n")[:-1]]


def test_the_last_event_comes_with_the_result(run: Run) -> None:
    first = run.read()
    last = b"event: response.completed\ndata: {}\n\n"
    run.objects.write_events(run.job.pk, run.line.attempt, len(EVENTS), last)
    assert run.read().events == first.events, "what is on the disk alone is not read"
    assert answer(run.objects, run.worker, [run.line], events_bytes=len(EVENTS + last)) == 1
    ended = run.read()
    assert (ended.events, ended.ended) == ([*first.events, last], True)
    more = events.after(run.job.tenant, run.job.name, run.objects, first.at)
    assert (more.events, more.at) == ([last], ended.at)
