"""What pools have used since 00:00 UTC: added up from the counts that ticks see."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import transaction

from controlplane.policy.core import observation
from controlplane.policy.core.observation import PoolFacts
from controlplane.policy.models import Spent

WRITE_EVERY_S = 60.0
MAX_GAP_S = 300.0
"""Where nobody looked for longer, the fewer of the replicas before and after count: these ran all the time, as far as is known."""
MS_PER_S = 1_000
HOUR_S = 3_600


@dataclass(slots=True)
class _Sum:
    day: datetime
    replica_hours: float = 0.0
    gpu_hours: float | None = 0.0
    usd: float | None = 0.0
    at_ms: int = 0
    replicas: int | None = None  # at that time, where this process saw them


class Meter:
    """Of the process that leads. What it has not written when it ends, at most WRITE_EVERY_S, the next one makes up for."""

    def __init__(self) -> None:
        self._sums: dict[str, _Sum] = {}
        self._written_ms = 0

    def add(self, pools: Mapping[str, PoolFacts], now_ms: int) -> None:
        """Replicas that have a node count: those that are ready, starting or draining."""
        day = _day(now_ms)
        for name, facts in pools.items():
            if facts.ready is None or (facts.model and facts.capacity_age_ms is None):
                continue  # what planning knows of the pool has not been read yet: a later tick counts this time too
            total = self._sums.get(name)
            if total is None or total.day != day:
                total = self._sums[name] = self._stored(name, day, now_ms)
            hours = (now_ms - total.at_ms) / MS_PER_S / HOUR_S
            now_there = replicas = facts.ready + (facts.starting or 0) + (facts.draining or 0)
            if total.replicas is not None and now_ms - total.at_ms > MAX_GAP_S * MS_PER_S:
                replicas = min(replicas, total.replicas)
            total.replica_hours += replicas * hours
            gpus, price = facts.gpus_per_replica, facts.usd_per_replica_hour
            if total.usd is None and price is not None and gpus and total.gpu_hours is not None:
                total.usd = total.gpu_hours * price / gpus  # somebody has entered what they cost meanwhile
            total.gpu_hours = (
                None if gpus is None or total.gpu_hours is None else total.gpu_hours + replicas * hours * gpus
            )
            total.usd = None if price is None or total.usd is None else total.usd + replicas * hours * price
            total.at_ms, total.replicas = now_ms, now_there

    def spent(self, now_ms: int) -> dict[str, observation.Spent]:
        day = _day(now_ms)
        return {
            name: observation.Spent(total.gpu_hours, total.usd, max(0, now_ms - total.at_ms))
            for name, total in self._sums.items()
            if total.day == day
        }

    def write(self, now_ms: int) -> None:
        """Within the caller's fence, at most every WRITE_EVERY_S."""
        if now_ms - self._written_ms < WRITE_EVERY_S * MS_PER_S:
            return
        self._written_ms = now_ms
        with transaction.atomic():
            for name, total in self._sums.items():
                Spent.objects.update_or_create(
                    pool=name,
                    day=total.day.date(),
                    defaults={
                        "replica_hours": total.replica_hours,
                        "gpu_hours": total.gpu_hours,
                        "usd": total.usd,
                        "at": datetime.fromtimestamp(total.at_ms / MS_PER_S, UTC),
                    },
                )

    def _stored(self, pool: str, day: datetime, now_ms: int) -> _Sum:
        row = Spent.objects.filter(pool=pool, day=day.date()).first()
        before = self._sums.get(pool)
        if row is None and before is not None and before.day < day:  # midnight has passed since
            return _Sum(day, at_ms=int(day.timestamp()) * MS_PER_S, replicas=before.replicas)
        if row is None:
            return _Sum(day, at_ms=now_ms)
        return _Sum(day, row.replica_hours, row.gpu_hours, row.usd, int(row.at.timestamp() * MS_PER_S))


def _day(now_ms: int) -> datetime:
    now = datetime.fromtimestamp(now_ms / MS_PER_S, UTC)
    return now - timedelta(hours=now.hour, minutes=now.minute, seconds=now.second, microseconds=now.microsecond)
