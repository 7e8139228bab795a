"""Any order of claims, answers, late answers, deaths, cancellations and ends: the store does what a model of a few lines says."""

import tempfile
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from controlplane.lane.core import states
from controlplane.lane.core.jobs import SOONEST
from controlplane.lane.core.states import Again
from controlplane.lane.models import Batch, Line, StoredFile, Worker
from controlplane.lane.objects.folder import Folder
from controlplane.lane.store import batches, changes, claims
from controlplane.lane.store.claims import Claimed, Result
from tests.support.lane.stored import answer, begun, check_ended, do_chores, new_job
from tests.support.soak import sized

TENANTS = ("alice", "bob", "carol")
WORKERS, LINES = 2, 3
pick = st.integers(0, 10**6)
BEGAN = (states.VALIDATING, states.IN_PROGRESS)
ORDERS = {
    states.BATCH: {
        (*BEGAN, states.FINALIZING, states.COMPLETED),
        (*BEGAN, states.FINALIZING, states.EXPIRED),
        (*BEGAN, states.CANCELLING, states.CANCELLED),
    },
    states.RESPONSE: {
        (states.QUEUED, *ran, end)
        for ran in ((), (states.IN_PROGRESS,))
        for end in (states.COMPLETED, states.FAILED, states.EXPIRED, states.CANCELLED)
    },
}


@dataclass
class Model:
    """A line is waiting, or in flight by one attempt of one worker, or has its result. A batch takes results while it is open."""

    flight: dict[int, tuple[int, int]] = field(default_factory=dict)  # line: attempt and worker
    deaths: dict[int, int] = field(default_factory=dict)
    results: dict[int, str] = field(default_factory=dict)
    waiting: set[int] = field(default_factory=set)

    def release(self, worker: int, *, dead: bool) -> None:
        for line in [line for line, (_, its) in self.flight.items() if its == worker]:
            del self.flight[line]
            self.deaths[line] = self.deaths.get(line, 0) + dead
            if self.deaths[line] >= states.MAX_DEATHS:
                self.results[line] = "lost"
            else:
                self.waiting.add(line)


class Protocol(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        for table in (Batch, Worker, StoredFile):
            table.objects.all().delete()
        self.folder = tempfile.TemporaryDirectory()
        self.objects = Folder(Path(self.folder.name))
        self.model = Model()
        self.lines: dict[int, list[int]] = {}  # of each batch
        self.soonest: set[int] = set()  # lines that somebody waits for
        self.open: set[int] = set()
        self.workers = [claims.register() for _ in range(WORKERS)]
        self.dispatched: list[tuple[int, Claimed]] = []  # by whom; also those that are over
        self.at = changes.newest()
        self.told: dict[int, list[str]] = {}  # how each batch came to stand, as a reader was told
        self.submit(LINES, TENANTS[0])

    @rule(number=st.integers(1, 4), tenant=st.sampled_from(TENANTS))
    def submit(self, number: int, tenant: str) -> None:
        self._submitted(begun(self.objects, number, tenant))

    @rule(tenant=st.sampled_from(TENANTS), soonest=st.booleans())
    def submit_job(self, tenant: str, soonest: bool) -> None:
        job = new_job(self.objects, tenant, SOONEST if soonest else "2h")
        self._submitted(job)
        self.soonest.update(self.lines[job.pk] if soonest else ())

    def _submitted(self, batch: Batch) -> None:
        self.lines[batch.pk] = list(Line.objects.filter(batch=batch).values_list("pk", flat=True))
        self.model.waiting.update(self.lines[batch.pk])
        self.open.add(batch.pk)

    @rule(worker=pick, places=st.integers(0, 3), soonest=st.integers(0, 3), alone=st.booleans())
    def claim(self, worker: int, places: int, soonest: int, alone: bool) -> None:
        its = self.workers[worker % WORKERS]
        claimed = claims.claim(its, places, soonest=soonest, alone=alone)
        may = {line for batch in self.open for line in self.lines[batch]} & self.model.waiting
        may = {line for line in may if (self.model.deaths.get(line, 0) >= states.ALONE_FROM) is alone}
        assert {it.line for it in claimed} <= may
        waited_for = may & self.soonest if not alone else set()
        most = min(places, len(may - waited_for)) + min(soonest, len(waited_for))
        assert (len(claimed), len({it.line for it in claimed})) == (most, most)
        assert all(it.soonest == (it.line in self.soonest) for it in claimed)
        for it in claimed:
            self.model.waiting.remove(it.line)
            self.model.flight[it.line] = (it.attempt, its)
            self.dispatched.append((its, it))

    @precondition(lambda self: self.dispatched)
    @rule(which=pick, again=st.booleans())
    def commit(self, which: int, again: bool) -> None:
        """Also an answer that comes a second time, of a worker that is dead, or to a batch that has ended."""
        self._commit(*self.dispatched[which % len(self.dispatched)], again)

    @property
    def late(self) -> list[tuple[int, Claimed]]:
        """Dispatches of lines that are in flight by another attempt."""
        flight = self.model.flight
        return [it for it in self.dispatched if flight.get(it[1].line, (it[1].attempt, 0))[0] != it[1].attempt]

    @precondition(lambda self: self.late)
    @rule(which=pick, again=st.booleans())
    def commit_late(self, which: int, again: bool) -> None:
        self._commit(*self.late[which % len(self.late)], again)

    def _commit(self, its: int, line: Claimed, again: bool) -> None:
        counts = line.batch in self.open and self.model.flight.get(line.line, (0, 0))[0] == line.attempt
        counted = claims.commit([Result(line, Again(0.0), 503)]) if again else answer(self.objects, its, [line])
        assert counted == counts
        if counts:
            del self.model.flight[line.line]
            if again:
                self.model.waiting.add(line.line)
            else:
                self.model.results[line.line] = "done"
            self._close_if_whole(line.batch)

    @rule(worker=pick, dead=st.booleans())
    def lose(self, worker: int, dead: bool) -> None:
        its = self.workers.pop(worker % WORKERS)
        self.workers.append(claims.register())
        if dead:
            Worker.objects.filter(pk=its).update(leased_until=claims.now() - timedelta(seconds=1))
            assert claims.take_over() == 1
        else:
            claims.leave(its)
        self.model.release(its, dead=dead)
        with pytest.raises(claims.LeaseLostError):
            claims.claim(its, 1)
        for batch in list(self.open):
            self._close_if_whole(batch)

    @precondition(lambda self: self.model.flight)
    @rule(which=pick, dead=st.booleans())
    def pass_on(self, which: int, dead: bool) -> None:
        """One loses what it has in flight, and the next takes it: so there are late answers."""
        places = sorted(self.workers.index(worker) for _, worker in self.model.flight.values())  # their ids are random
        self.lose(places[which % len(places)], dead)
        self.claim(0, LINES, LINES, False)

    @precondition(lambda self: self.open)
    @rule(which=pick, expires=st.booleans())
    def end(self, which: int, expires: bool) -> None:
        batch = Batch.objects.get(pk=sorted(self.open)[which % len(self.open)])
        self.open.remove(batch.pk)
        if expires:
            Batch.objects.filter(pk=batch.pk).update(expires_at=claims.now())
            assert batches.expire() == 1
        else:
            batches.cancel(batch.tenant, batch.name, batch.kind)

    @rule()
    def chores(self) -> None:
        do_chores(self.objects)

    @rule(limit=st.integers(1, 5))
    def read(self, limit: int) -> None:
        newest = changes.newest()
        rows = [row for it in TENANTS for row in changes.between(it, self.at, newest, 1_000)]
        rows = sorted(rows, key=lambda row: (row.transaction, row.pk))
        for row in rows[:limit]:
            self.told.setdefault(row.batch_id, []).append(row.status)
        self.at = changes.Position(rows[limit - 1].transaction, rows[limit - 1].pk) if len(rows) > limit else newest

    @invariant()
    def what_is_counted_is_what_there_is(self) -> None:
        for batch in Batch.objects.filter(pk__in=self.open):
            results = [self.model.results.get(line) for line in self.lines[batch.pk]]
            assert (batch.status, batch.completed, batch.failed) == (
                states.IN_PROGRESS,
                results.count("done"),
                results.count("lost"),
            )

    def teardown(self) -> None:
        for batch in Batch.objects.filter(pk__in=self.open):
            batches.cancel(batch.tenant, batch.name, batch.kind)
        do_chores(self.objects)
        self.read(1_000)
        for batch in Batch.objects.filter(pk__in=self.lines):
            assert tuple(self.told[batch.pk]) in ORDERS[batch.kind], "all that it became, once, and in order"
            assert self.told[batch.pk][-1] == batch.status
            check_ended(self.objects, batch)
            assert batch.status in states.ENDED
            assert batch.completed == sum(self.model.results.get(line) == "done" for line in self.lines[batch.pk])
        self.folder.cleanup()

    def _close_if_whole(self, batch: int) -> None:
        if all(line in self.model.results for line in self.lines[batch]):
            self.open.discard(batch)


@pytest.mark.django_db(transaction=True)
def test_the_store_follows_the_model() -> None:
    short = 15 if connection.vendor == "sqlite" else 6  # what PostgreSQL takes otherwise shows in any
    run_state_machine_as_test(
        Protocol, settings=settings(max_examples=sized(short, soak=1_000), stateful_step_count=sized(30, soak=60))
    )
