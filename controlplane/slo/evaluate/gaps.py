"""Keeps when the ledger was not trusted, requests were lost while others arrived, or nobody measured, and how many of those that gateways
ended then it has no row of.

Spans come late: a gap is counted again, less and less often, and is forgotten once the ledger has its requests. Only the leader writes.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from django.db import transaction
from django.db.models import F

from controlplane.fleet.models import Observation
from controlplane.slo.core.gaps import Ended, Gap, Key, Process, missing
from controlplane.slo.core.period import MAX_PERIOD_S, SECOND_NS
from controlplane.slo.models import MeasurementGap
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.core.recorded import MIN_UNMEASURED_S, noted_s, unrecorded
from controlplane.telemetry.store import Store

NOTICED_WITHIN_S = 60.0
"""A ledger is known to be stale so long after its last request at most."""
EDGE_S = 2.0
"""Gateways are read once a second: rows so close to a gap may be of its requests."""
COUNTED_FOR = timedelta(days=1)
"""Spans that come later than this close no gap."""
AGAIN_AFTER = 0.1
"""A gap is counted again once it is older by this part."""
MAX_COUNTING_S = 1.0
"""Of a tick: the others are counted with the next, so that a slow store delays no judgement for long."""
COMPARED_EVERY_S = 300.0
"""While the ledger is trusted, its requests of so long are compared with what gateways counted."""
LATE_S = 60.0
"""Requests that ended so long ago are in the ledger, unless they were lost or are late."""
STARTS_WITHIN_S = 90.0
"""A gateway that began so shortly before telemetry received again began with it, as far as is known."""
IN_PART = "some requests did not reach the ledger while others did"
SILENT_GATEWAY = "a gateway was silent: whether all requests reached the ledger is not known"
UNATTENDED = "neither telemetry nor a controller ran"
SERVED_UNATTENDED = f"{UNATTENDED}, while a gateway did"
MAX_IN_PART = timedelta(hours=1)
"""Such times that follow each other are one gap, up to this length."""
MAX_GAPS = 1_000
"""The newest are kept."""

Fence = Callable[[], None]
Look = tuple[float, dict[Key, int]]
"""A time, s since the epoch, and what gateways had counted by then."""


class Gaps:
    """One per process."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ended = Ended()
        self._trusted_s: float | None = None  # when the ledger was last trusted
        self._began: tuple[int, float, dict[Key, int]] | None = None  # the row, its begin, and the sums then
        self._compared: Look | None = None  # until when the ledger was
        self._uncompared: tuple[Look, Look, str] | None = None  # what was not yet when it was no longer trusted
        self._clocks_agree = True
        self._gateways_began_s: list[float] = []
        self._has_written = False
        self._absence: tuple[int, int] | None = None  # from when to when no controller ran, before this one

    def look(self, now: datetime, processes: Mapping[str, Process]) -> None:
        """Note what gateways have counted."""
        self._ended.look(now.timestamp(), processes)
        self._gateways_began_s = [process.started_s for process in processes.values()]
        self._clocks_agree = all(abs(process.ahead_s) <= EDGE_S for process in processes.values())

    @staticmethod
    def known(now: datetime) -> list[Gap]:
        """All that reach into the longest period, in order; one that lasts reaches to `now`. Raises DatabaseError."""
        return [
            Gap(
                int(row.began_at.timestamp()),
                int((row.ended_at or now).timestamp()),
                row.why,
                _by_key(row.missing),
                lasts=row.ended_at is None,
                ended=_by_key(row.ended),
                or_more=row.why == SILENT_GATEWAY,
                blinds=row.why != UNATTENDED,
            )
            for row in MeasurementGap.objects.filter(began_at__gte=now - timedelta(seconds=MAX_PERIOD_S))
        ]

    def write(self, now: datetime, why: str, newest_s: float | None, fence: Fence) -> None:
        """Begin a gap where the ledger is not trusted, for the reason `why`; end it, and count what the ledger has got since.

        `newest_s`: when the newest request in the ledger ended, s since the epoch. `fence` is called first in each transaction. None
        lasts while the store is asked: others wait for it. Raises DatabaseError, StoreUnavailableError and StoreError.
        """
        lasting = MeasurementGap.objects.filter(ended_at=None).last()
        if not self._has_written:
            self._has_written, self._absence = True, None if lasting else _absence(now)
        if why:
            if lasting is None:
                self._begin(now, why, newest_s, fence)
            self._compared = None
            return
        self._trusted_s = now.timestamp()
        if lasting is not None:
            lasting.ended_at, lasting.ended = now, self._counted_in(lasting)
            with _fenced(fence):
                lasting.save()
        self._compare(now, fence)
        self._note_unattended(now, fence)
        until_s = time.monotonic() + MAX_COUNTING_S
        longest_ago = F("counted_at").asc(nulls_first=True)
        for row in MeasurementGap.objects.filter(ended_at__gte=now - COUNTED_FOR).order_by(longest_ago):
            ended_at = row.ended_at or now
            if time.monotonic() > until_s:
                break
            if row.counted_at is None or now - row.counted_at >= AGAIN_AFTER * (now - ended_at):
                self._count(row, ended_at, now, fence)

    def _compare(self, now: datetime, fence: Fence) -> None:
        """Note the requests that were lost while others arrived, or that nobody knows whether any were: a gateway was silent."""
        if not self._clocks_agree:
            self._compared = self._uncompared = None
            return
        if self._uncompared is not None:
            self._note_lost(*self._uncompared, fence)
            self._uncompared = None
        if self._compared is None:
            self._compared = self._ended.until(now.timestamp())
        until = self._ended.until(now.timestamp() - LATE_S)
        if until[0] - self._compared[0] >= COMPARED_EVERY_S:
            self._note_lost(self._compared, until, self._why_lost(self._compared, until), fence)
            self._compared = until  # once the store has answered

    def _why_lost(self, since: Look, until: Look) -> str:
        return SILENT_GATEWAY if self._ended.was_lost(since[0], until[0]) else IN_PART

    def _note_lost(self, since: Look, until: Look, why: str, fence: Fence) -> None:
        (from_s, base), (to_s, sums) = since, until
        ended = {key: grown for key, number in sums.items() if (grown := number - base.get(key, 0))}
        if not ended or (why == IN_PART and not missing(ended, self._ended_in(from_s, to_s))):
            return
        began_at, ended_at = (datetime.fromtimestamp(at_s, UTC) for at_s in (from_s, to_s))
        row = MeasurementGap.objects.filter(why=why, ended_at=began_at, began_at__gt=ended_at - MAX_IN_PART).last()
        row = row or MeasurementGap(began_at=began_at, why=why)
        before = _by_key(row.ended) or {}
        row.ended_at, row.counted_at = ended_at, None
        row.ended = _listed({key: before.get(key, 0) + ended.get(key, 0) for key in {*before, *ended}})
        with _fenced(fence):
            row.save()

    def _note_unattended(self, now: datetime, fence: Fence) -> None:
        """Note when telemetry did not receive before this controller began, once gateways and telemetry have said what they know of it."""
        if self._absence is None or now.timestamp() < noted_s(self._absence[1]):
            return
        recorded_s = self._store.demand.recorded(*self._absence)
        with _fenced(fence):
            for from_s, to_s in unrecorded(*self._absence, recorded_s, now.timestamp()):
                served = any(began_s < to_s - STARTS_WITHIN_S for began_s in self._gateways_began_s)
                began_at, ended_at = (datetime.fromtimestamp(at_s, UTC) for at_s in (from_s, to_s))
                why = SERVED_UNATTENDED if served else UNATTENDED
                MeasurementGap(began_at=began_at, ended_at=ended_at, why=why).save()
        self._absence = None

    def _ended_in(self, from_s: float, to_s: float) -> dict[Key, int]:
        """What the ledger has of a time, and of moments around it."""
        return self._store.objectives.ended(
            Window(int((from_s - EDGE_S) * SECOND_NS), int((to_s + EDGE_S) * SECOND_NS))
        )

    def _begin(self, now: datetime, why: str, newest_s: float | None, fence: Fence) -> None:
        now_s = now.timestamp()
        from_s = now_s if self._trusted_s is None else max(newest_s or 0.0, self._trusted_s - NOTICED_WITHIN_S)
        from_s, sums = self._ended.until(min(from_s, now_s))
        with _fenced(fence):
            row = MeasurementGap.objects.create(began_at=datetime.fromtimestamp(from_s, UTC), why=why)
            kept = MeasurementGap.objects.order_by("-began_at").values_list("pk", flat=True)[:MAX_GAPS]
            MeasurementGap.objects.exclude(pk__in=list(kept)).delete()
            MeasurementGap.objects.filter(began_at__lt=now - timedelta(seconds=MAX_PERIOD_S)).delete()
        self._began = row.pk, from_s, sums
        if self._compared is not None and from_s > self._compared[0]:
            until = from_s, sums
            self._uncompared = self._compared, until, self._why_lost(self._compared, until)

    def _counted_in(self, row: MeasurementGap) -> list[tuple[str, str, int]] | None:
        """What gateways have counted since it began; None where this process has not seen all of it."""
        if self._began is None or self._began[0] != row.pk:
            return None
        ended = self._ended.since(*self._began[1:])
        return None if ended is None else _listed(ended)

    def _count(self, row: MeasurementGap, ended_at: datetime, now: datetime, fence: Fence) -> None:
        row.counted_at = now
        ended, from_s, to_s = _by_key(row.ended), row.began_at.timestamp(), ended_at.timestamp()
        if ended is not None:
            lost = missing(ended, self._ended_in(from_s, to_s))
            row.missing = _listed(lost)
            is_over = not lost and row.why != SILENT_GATEWAY
        else:
            begin_s, end_s = self._store.objectives.longest_without_ends(int(from_s), math.ceil(to_s))
            row.began_at = max(row.began_at, datetime.fromtimestamp(begin_s, UTC))
            row.ended_at = min(ended_at, datetime.fromtimestamp(end_s, UTC))
            is_over = (row.ended_at - row.began_at).total_seconds() < MIN_UNMEASURED_S
        with _fenced(fence):
            if is_over:
                row.delete()
            else:
                row.save()


@contextmanager
def _fenced(fence: Fence) -> Iterator[None]:
    with transaction.atomic():
        fence()
        yield


def _absence(now: datetime) -> tuple[int, int] | None:
    """From when to when no controller ran, s since the epoch."""
    last_at = Observation.objects.filter(component="controller").values_list("observed_at", flat=True).first()
    if last_at is None or (now - last_at).total_seconds() < MIN_UNMEASURED_S:
        return None
    return int(max(last_at, now - timedelta(seconds=MAX_PERIOD_S)).timestamp()), int(now.timestamp())


def _listed(counts: Mapping[Key, int]) -> list[tuple[str, str, int]]:
    return [(*key, number) for key, number in sorted(counts.items())]


def _by_key(listed: list[tuple[str, str, int]] | None) -> dict[Key, int] | None:
    return None if listed is None else {(model, tier): number for model, tier, number in listed}
