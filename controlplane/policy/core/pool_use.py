"""What pools used over a time, beside what perfect foresight would have had them use."""

from collections.abc import Sequence

import msgspec

from controlplane.policy.core.hindsight import foreseen, needed_at_most
from controlplane.policy.core.record import Record

HOUR_MS = 3_600_000
MAX_GAP_MS = 300_000
"""Between records further apart nobody knows what was there: that time does not count."""


class PoolUse(msgspec.Struct, frozen=True):
    """`gpu_hours` and `usd` are None where the pool's GPUs or their price are not known."""

    pool: str
    hours: float = 0.0
    """The time that is known of."""
    replica_hours: float = 0.0
    gpus_per_replica: int | None = None
    usd_per_replica_hour: float | None = None
    foreseen_replica_hours: float | None = None
    """Of perfect foresight. None where nothing was known of the load."""
    compared_replica_hours: float = 0.0
    """Of the pool, in the time of which perfect foresight is known."""
    foreseen_at_most: bool = False
    """A replica may carry more than is known: perfect foresight may have had fewer."""

    @property
    def gpu_hours(self) -> float | None:
        return None if self.gpus_per_replica is None else self.replica_hours * self.gpus_per_replica

    @property
    def usd(self) -> float | None:
        return None if self.usd_per_replica_hour is None else self.replica_hours * self.usd_per_replica_hour


def used(records: Sequence[Record], until_ms: int) -> list[PoolUse]:
    """By pool, from records by time. A count holds from its record to the next, and from the last one to `until_ms`."""
    ends = [each.decided_at_ms for each in records[1:]] + [until_ms]
    sums: dict[str, PoolUse] = {}
    best = {pool: foreseen(records, pool) for pool in {name for each in records for name in each.decision.targets}}
    for number, (record, end_ms) in enumerate(zip(records, ends, strict=True)):
        lasted_ms = end_ms - record.decided_at_ms
        if not 0 < lasted_ms <= MAX_GAP_MS:
            continue
        hours = lasted_ms / HOUR_MS
        for pool, facts in record.observation.pools.items():
            if facts.wanted is None:
                continue
            so_far = sums.get(pool, PoolUse(pool))
            foresight = best[pool][number] if pool in best else None
            sums[pool] = PoolUse(
                pool,
                so_far.hours + hours,
                so_far.replica_hours + hours * facts.wanted,
                facts.gpus_per_replica,
                facts.usd_per_replica_hour,
                so_far.foreseen_replica_hours
                if foresight is None
                else (so_far.foreseen_replica_hours or 0.0) + hours * foresight,
                so_far.compared_replica_hours + (0.0 if foresight is None else hours * facts.wanted),
                so_far.foreseen_at_most or needed_at_most(record, pool),
            )
    return sorted(sums.values(), key=lambda each: each.pool)
