"""What pools used over a time, beside what other autoscalers and perfect foresight would have had them use."""

from collections.abc import Mapping, Sequence

import msgspec

from controlplane.policy.core.hindsight import foreseen
from controlplane.policy.core.record import Record

HOUR_MS = 3_600_000
MAX_GAP_MS = 300_000
"""Between records further apart nobody knows what was there: that time counts for nobody."""


FORESIGHT = "perfect foresight"


class Beside(msgspec.Struct, frozen=True):
    """Replica-hours that another autoscaler would have had, and those that the pool had in the same time."""

    replica_hours: float = 0.0
    own_replica_hours: float = 0.0


class PoolUse(msgspec.Struct, frozen=True):
    """`gpu_hours` and `usd` are None where the pool's GPUs or their price are not known. `others` are by autoscaler."""

    pool: str
    hours: float
    """The time that is known of."""
    replica_hours: float
    gpus_per_replica: int | None
    usd_per_replica_hour: float | None
    others: Mapping[str, Beside]

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
            before = sums.get(pool) or PoolUse(pool, 0.0, 0.0, None, None, {})
            others = dict(before.others)
            counts = {each.name: each.wanted for each in record.references if each.target == pool}
            if pool in best and (foresight := best[pool][number]) is not None:
                counts[FORESIGHT] = foresight
            for name, count in counts.items():
                so_far = others.get(name, Beside())
                others[name] = Beside(
                    so_far.replica_hours + hours * count, so_far.own_replica_hours + hours * facts.wanted
                )
            sums[pool] = PoolUse(
                pool,
                before.hours + hours,
                before.replica_hours + hours * facts.wanted,
                facts.gpus_per_replica,
                facts.usd_per_replica_hour,
                others,
            )
    return sorted(sums.values(), key=lambda each: each.pool)
