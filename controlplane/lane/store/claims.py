"""Who runs which line, and what came of it. The only writes to lines that run.

A worker holds a lease in the database's time. Each dispatch of lines has an attempt of its own, and a result counts if its line is in
flight by the same attempt: so a line has one result, however many workers run it, and whichever of them is late. A result, its batch's
counts and tokens, and the end of its batch are one transaction.

Whatever locks several rows locks workers before batches before lines, each by id; so no two transactions wait for each other.
"""

import secrets
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import connection, transaction
from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Window
from django.db.models.functions import RowNumber
from django.utils import timezone

from controlplane.core.reported import unchanged_s
from controlplane.lane.core import states
from controlplane.lane.core.fairness import URGENT_S, Candidate, shares
from controlplane.lane.core.jobs import SOONEST
from controlplane.lane.core.results import Usage
from controlplane.lane.core.states import Again
from controlplane.lane.models import Batch, Line, Worker
from controlplane.lane.store import changes, limits
from controlplane.lane.store.write_turns import turn

LEASE = timedelta(seconds=30)
_MAX_WAIT = timedelta(seconds=states.MAX_WAIT_S)
_CANDIDATES = 200  # batches that are compared for a claim: the next of each tenant before the second of any

Room = Callable[[str], int]
"""How many more lines of a model may be in flight."""


def _plenty(_: str) -> int:
    return sys.maxsize


class LeaseLostError(Exception):
    """Permanent for this worker: another has taken its lines over. It goes on as a new worker."""


class Claimed(NamedTuple):
    """A line to run, by this attempt."""

    line: int
    attempt: int
    batch: int
    batch_name: str
    model: str
    key_sha256: str
    endpoint: str
    input_object: str
    number: int
    offset: int
    length: int
    tries: int  # with this one
    alone: bool
    soonest: bool  # somebody waits for it
    hurries: bool  # its batch is late, and may be served in its tenant's own tier
    streams: bool


class Result(NamedTuple):
    """What came of a line. Where it is in a segment, unless it is tried again or has no answer."""

    of: Claimed
    verdict: states.Verdict
    status: int = 0
    code: str = ""
    segment: int | None = None
    offset: int = 0
    length: int = 0
    usage: Usage = Usage()
    events_bytes: int = 0  # of all its events, where it streams
    ends_as: str = ""  # what its server says that a response is, where that is not completed


def now() -> datetime:
    """The database's time: leases of workers whose clocks differ are compared by it."""
    if connection.vendor != "postgresql":
        return timezone.now()  # SQLite has no other
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        time: datetime = cursor.fetchone()[0]
        return time


def is_past(name: str, at: datetime, longest: timedelta) -> Q:
    """Whether the time `name` is over, which is written about `longest` ahead at most: one beyond twice that is of a clock set back."""
    return Q(**{f"{name}__lte": at}) | Q(**{f"{name}__gt": at + 2 * longest})


def new_id() -> int:
    return secrets.randbits(62) + 1


def register(lease: timedelta = LEASE) -> int:
    """A new worker, and its id."""
    return Worker.objects.create(id=new_id(), leased_until=now() + lease).pk


def renew(worker: int, lease: timedelta = LEASE) -> None:
    """Raises LeaseLostError."""
    if not Worker.objects.filter(pk=worker).update(leased_until=now() + lease):
        raise LeaseLostError(str(worker))


def claim(
    worker: int,
    places: int,
    lease: timedelta = LEASE,
    *,
    soonest: int = 0,
    alone: bool = False,
    room: Room = _plenty,
) -> list[Claimed]:
    """At most so many lines, by a new attempt, and of each model no more than it has `room` for; and at most `soonest` of those that
    somebody waits for, which have places of their own. `alone` takes the next of those that run alone, which others are not taken with.

    Raises LeaseLostError.
    """
    with turn(), transaction.atomic():
        renew(worker, lease)
        at = now()
        due = Line.objects.filter(Q(not_before=None) | is_past("not_before", at, _MAX_WAIT), state=states.WAITING)
        due = due.filter(deaths__gte=states.ALONE_FROM) if alone else due.filter(deaths__lt=states.ALONE_FROM)
        opened = Batch.objects.filter(
            Exists(due.filter(batch=OuterRef("pk"))), status=states.IN_PROGRESS, expires_at__gt=at
        )
        if alone:
            return _claim(opened, due, worker, places, at, alone=True)
        waited_for = opened.filter(completion_window=SOONEST)
        others = opened.exclude(completion_window=SOONEST)
        return _claim(waited_for, due, worker, soonest, at, 0.0) + _claim(others, due, worker, places, at, room=room)


def _claim(
    opened: QuerySet[Batch],
    due: QuerySet[Line],
    worker: int,
    places: int,
    at: datetime,
    urgent_s: float = URGENT_S,
    *,
    alone: bool = False,
    room: Room = _plenty,
) -> list[Claimed]:
    if not places:
        return []
    first = Window(RowNumber(), partition_by="tenant", order_by=("expires_at", "pk"))
    rows = opened.annotate(nth=first).filter(nth__lte=places).order_by("nth", "expires_at", "pk")
    candidates = [
        Candidate(pk, tenant, (until - at).total_seconds(), model, None if kind == states.BATCH else 1)
        for pk, tenant, until, kind, model in rows.values_list("pk", "tenant", "expires_at", "kind", "model")[
            :_CANDIDATES
        ]
    ]
    rooms = {candidate.model: room(candidate.model) for candidate in candidates}
    out: list[Claimed] = []
    while len(out) < places:
        taken = Counter(it.model for it in out)
        left_of = {model: most - taken[model] for model, most in rooms.items()}
        if not (wanted := shares(candidates, _running(), places - len(out), left_of, urgent_s)):
            break
        left = {candidate.batch: candidate for candidate in candidates}
        for pk in wanted.keys() - _taken(wanted, due, worker, at, out, alone=alone):
            del left[pk]  # it has no more
        candidates = list(left.values())
    return out


def _taken(
    wanted: Mapping[int, int], due: QuerySet[Line], worker: int, at: datetime, out: list[Claimed], *, alone: bool
) -> set[int]:
    """Add lines of batches to `out`, so many of each as are wanted. Returns the batches that had as many."""
    full = set()
    for batch in Batch.objects.filter(pk__in=wanted, status=states.IN_PROGRESS).order_by("pk").select_for_update():
        lines = _take(batch, due, worker, at, wanted[batch.pk], alone=alone)
        out += lines
        if len(lines) == wanted[batch.pk]:
            full.add(batch.pk)
    return full


def _running() -> dict[str, int]:
    rows = Line.objects.filter(state=states.RUNNING).values_list("batch__tenant").annotate(number=Count("pk"))
    return dict(rows.order_by())


def _take(batch: Batch, due: QuerySet[Line], worker: int, at: datetime, places: int, *, alone: bool) -> list[Claimed]:
    attempt = new_id()
    ends_at = batch.ends_at(at)
    hurries = ends_at is not None and ends_at > batch.expires_at and limits.of(batch.tenant).hurries
    its = due.filter(batch=batch).order_by("deaths", "prefix", "number").select_for_update(skip_locked=True)
    rows = list(its.values_list("pk", "number", "offset", "length", "tries")[:places])
    Line.objects.filter(pk__in=[row[0] for row in rows]).update(
        state=states.RUNNING, worker=worker, attempt=attempt, tries=F("tries") + 1, not_before=None
    )
    if batch.kind != states.BATCH and rows and not rows[0][4]:
        changes.write(batch, at)
    return [
        Claimed(
            line,
            attempt,
            batch.pk,
            batch.name,
            batch.model,
            batch.key_sha256,
            batch.endpoint,
            batch.input_object,
            number,
            offset,
            length,
            tries + 1,
            alone,
            batch.completion_window == SOONEST,
            hurries,
            batch.streams,
        )
        for line, number, offset, length, tries in rows
    ]


def commit(results: Sequence[Result]) -> int:
    """Write the results that still count. Returns how many."""
    by_batch: defaultdict[int, list[Result]] = defaultdict(list)
    for result in results:
        by_batch[result.of.batch].append(result)
    counted = 0
    with turn(), transaction.atomic():
        at = now()
        for batch in Batch.objects.filter(pk__in=by_batch).order_by("pk").select_for_update():
            if batch.status == states.IN_PROGRESS:
                counted += _commit(batch, sorted(by_batch[batch.pk], key=lambda it: it.of.line), at)
    return counted


def _commit(batch: Batch, results: Sequence[Result], at: datetime) -> int:
    """Of a locked batch, so that its lines stay as they are read."""
    lines = Line.objects.filter(pk__in=[result.of.line for result in results], state=states.RUNNING)
    in_flight_by = dict(lines.values_list("pk", "attempt"))
    results = [result for result in results if in_flight_by.get(result.of.line) == result.of.attempt]
    written = []
    usage, ends_as = Usage(), states.COMPLETED
    for each in results:
        result, line, verdict = each, each.of.line, each.verdict
        if isinstance(verdict, Again):
            again = at + timedelta(seconds=verdict.wait_s)
            if Line.objects.filter(pk=line, attempt=result.of.attempt, is_read=False).update(
                **_WAITS, not_before=again, status_code=result.status
            ):
                continue
            verdict, result = "refused", result._replace(code=states.BROKEN_CODE)
        if result.events_bytes:
            mine = Line.objects.filter(pk=line, attempt=result.of.attempt)
            mine.update(events_of=result.of.attempt, events_bytes=result.events_bytes)
        state = states.DONE if verdict == "done" else states.REFUSED
        place = (result.segment if result.length else None, result.offset, result.length)
        written.append((state, result.status, result.code, *place, line, result.of.attempt))
        usage = usage.plus(result.usage)
        ends_as = result.ends_as or states.COMPLETED
        batch.completed += state == states.DONE
        batch.failed += state == states.REFUSED
        batch.uncounted += state == states.DONE and result.usage == Usage()
    if written:
        with connection.cursor() as cursor:
            cursor.executemany(_WRITE, written)
    batch.input_tokens += usage.input
    batch.cached_tokens += usage.cached
    batch.output_tokens += usage.output
    batch.reasoning_tokens += usage.reasoning
    end_if_all_ended(batch, at, ends_as if batch.kind == states.RESPONSE else states.COMPLETED)
    batch.save()
    return len(results)


_WAITS: dict[str, Any] = {
    "state": states.WAITING,
    "worker": None,
    "attempt": None,
    "events_of": None,
    "events_bytes": 0,
}
_WRITE = (
    f"UPDATE {Line._meta.db_table} SET state = %s, worker = NULL, attempt = NULL, status_code = %s, code = %s, segment = %s, "  # noqa: S608
    "result_offset = %s, result_length = %s WHERE id = %s AND attempt = %s"
)
"""Django makes an update of its own of each line, which takes three times as long as all else that a line costs."""


def end_if_all_ended(batch: Batch, at: datetime, ends_as: str = states.COMPLETED) -> None:
    """Of a locked batch, which is saved by the caller."""
    if batch.completed + batch.failed == batch.total:
        end(batch, ends_as, at)


def end(batch: Batch, ends_as: str, at: datetime) -> None:
    """Of a locked batch, which is saved by the caller. A job is at its end with this, and its webhook may leave; of a batch, the files
    are written first.
    """
    batch.ends_as, batch.chore_attempt, batch.chore_until = ends_as, None, None
    if batch.kind != states.BATCH:
        batch.status = states.FAILED if ends_as == states.COMPLETED and not batch.completed else ends_as
        batch.ended_at, batch.kept_until = at, at + limits.kept(batch.tenant)
        batch.failed = batch.total - batch.completed
        batch.lines.filter(state__in=(states.WAITING, states.RUNNING)).update(
            state=states.REFUSED, code=states.LEFT_OVER.get(ends_as, ""), worker=None, attempt=None
        )
    elif ends_as == states.CANCELLED:
        batch.status, batch.cancelling_at = states.CANCELLING, at
    else:
        batch.status, batch.finalizing_at = states.FINALIZING, at
    changes.write(batch, at)


def in_flight(worker: int) -> set[tuple[int, int]]:
    """Line and attempt of each line that is still the worker's. Others were cancelled, have expired, or were taken over."""
    mine = Line.objects.filter(worker=worker, state=states.RUNNING, batch__status=states.IN_PROGRESS)
    return {(line, attempt) for line, attempt in mine.values_list("pk", "attempt") if attempt is not None}


def extend(written: Iterable[tuple[int, int, int]]) -> None:
    """That so many bytes of events are on the disk: line, attempt and bytes of each. Of lines that are in flight by the attempt still."""
    with transaction.atomic():
        for line, attempt, size in sorted(written):
            mine = Line.objects.filter(pk=line, attempt=attempt, state=states.RUNNING)
            mine.update(events_of=attempt, events_bytes=size)


def mark_read(line: int, attempt: int) -> bool:
    """That events of this attempt are read from now on, so that the line is not begun again. False where that has happened."""
    stays = Q(attempt=attempt, state=states.RUNNING) | Q(state__in=(states.DONE, states.REFUSED))
    return bool(Line.objects.filter(stays, pk=line, events_of=attempt).update(is_read=True))


def leave(worker: int) -> None:
    """End the worker, and give back the lines that it has not finished."""
    _release(Q(pk=worker), deaths=0)


def take_over(lease: timedelta = LEASE) -> int:
    """Give the lines of workers whose lease is over to others: also where it has stood still for so long, whatever clock it is of, but not
    where it is renewed meanwhile. Returns how many workers ended so.
    """
    at, over = now(), Q()
    for pk, until in Worker.objects.values_list("pk", "leased_until"):
        if unchanged_s(f"worker {pk}", until) > lease.total_seconds() or until < at:
            over |= Q(pk=pk, leased_until=until)
    return _release(over, deaths=1) if over else 0


def give_back(worker: int, known: Collection[tuple[int, int]]) -> None:
    """Lines that are in flight by the worker without its knowing of their line and attempt: a reply to a claim was lost."""
    with transaction.atomic():
        mine = Line.objects.filter(worker=worker, state=states.RUNNING)
        stray = [line for line, attempt in mine.values_list("pk", "attempt") if (line, attempt) not in known]
        _wait_again(mine.filter(pk__in=stray), 0, now())


def _release(workers: Q, deaths: int) -> int:
    with transaction.atomic():
        at = now()
        rows = Worker.objects.filter(workers).order_by("pk").select_for_update(skip_locked=True)
        ended = [row.pk for row in rows]
        _wait_again(Line.objects.filter(worker__in=ended, state=states.RUNNING), deaths, at)
        Worker.objects.filter(pk__in=ended).delete()
    return len(ended)


def _wait_again(lines: QuerySet[Line], deaths: int, at: datetime) -> None:
    batches = lines.values_list("batch", flat=True).distinct()
    for batch in Batch.objects.filter(pk__in=list(batches)).order_by("pk").select_for_update():
        mine = lines.filter(batch=batch)
        if batch.status == states.IN_PROGRESS:
            again = mine.filter(deaths__lt=states.MAX_DEATHS - 1) if deaths else mine
            again.filter(is_read=False).update(**_WAITS, deaths=F("deaths") + deaths)
            batch.failed += mine.update(
                state=states.REFUSED,
                code=states.LOST_CODE,
                worker=None,
                attempt=None,
                deaths=F("deaths") + deaths,
            )
            end_if_all_ended(batch, at)
            batch.save()
        mine.update(**_WAITS, deaths=F("deaths") + deaths)


def has_lonely() -> bool:
    """Whether a line waits that runs alone."""
    return Line.objects.filter(
        state=states.WAITING, deaths__gte=states.ALONE_FROM, batch__status=states.IN_PROGRESS
    ).exists()
