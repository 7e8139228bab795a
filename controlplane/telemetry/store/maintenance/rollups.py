"""Fills rollups and demand from stretches of the ledger that are over. Rows written later cause another build.

A build's rows are written first, and then one row of `rollup_builds`, from which on readers use it: a kill between leaves the build before.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ..client import StorePart
from ..tiers import RELIED_S, TIERS, Kind, Tier
from .rollup_sql import (
    DEMAND_OF_REQUESTS,
    METRICS_OF_SAMPLES,
    ROLLUPS_OF_REQUESTS,
    ROLLUPS_OF_ROLLUPS,
    SLICES_OF_ROLLUPS,
)

SETTLED_S = 120
"""How long after its end a stretch is filled, s: late spans arrive before."""
TOUCHED_S = 300
"""Written rows are counted by so many seconds (`rollup_touched`)."""
DAY_S = 86_400
TOGETHER_S = 3600
"""Stretches within so long are filled by one statement, s."""
DEAD_KEPT_S = 3600
"""How long a replaced build is kept for queries that read it, s."""

_TABLES: tuple[tuple[Kind, str], ...] = (
    ("rollups", "rollups"),
    ("rollups", "rollup_slices"),
    ("demand", "demand"),
    ("metrics", "metric_rollups"),
)
_BUILDS = pa.schema(
    [
        ("kind", pa.string()),
        *((name, pa.uint32()) for name in ("step_s", "start_s")),
        *((name, pa.uint64()) for name in ("version", "build", "touches")),
    ]
)


@dataclass(frozen=True, slots=True)
class Stretch:
    """What must be built: [start_s, start_s + tier.step_s), into which `touches` rows were written. `build` is the build before, or 0."""

    tier: Tier
    start_s: int
    touches: int
    build: int

    @property
    def end_s(self) -> int:
        return self.start_s + self.tier.step_s


def parameters_of(tier: Tier, from_s: int, to_s: int, build: int, finer: Tier | None = None) -> dict[str, int]:
    """Of the statements that build [from_s, to_s) of a tier, from `finer` if it is given. The first stretch gets the number `build`."""
    return {
        "from_s": from_s,
        "to_s": to_s,
        "from_ns": from_s * 10**9,
        "to_ns": to_s * 10**9,
        "build": build,
        "builds": (to_s - from_s) // tier.step_s,
        "step_s": tier.step_s,
        "step_ns": tier.step_s * 10**9,
        "finer_s": finer.step_s if finer else 0,
    }


def builds_of(tier: Tier, from_s: int, build: int, touches: Mapping[int, int]) -> pa.Table:
    """Rows of `rollup_builds`: the stretches that such a statement built, by start, with how many rows were written into each."""
    builds = [build + (start_s - from_s) // tier.step_s for start_s in touches]
    columns = {
        "kind": [tier.kind] * len(builds),
        "step_s": [tier.step_s] * len(builds),
        "start_s": list(touches),
        "version": builds,
        "build": builds,
        "touches": list(touches.values()),
    }
    return pa.table(columns, schema=_BUILDS)


class RollupFiller(StorePart):
    """Raises StoreUnavailableError or StoreError; the next call starts again. Two processes at once do the work twice, harmlessly."""

    def due(self, now_ns: int, retention_days: int) -> list[Stretch]:
        """The stretches to build, the newest first, and the finer tiers of each time before the coarser ones."""
        now_s = now_ns // 10**9
        due = [stretch for tier in TIERS for stretch in self._due(tier, now_s, now_s - retention_days * DAY_S)]
        return sorted(due, key=lambda stretch: (-stretch.start_s, TIERS.index(stretch.tier)))

    def fill(self, stretches: Sequence[Stretch], now_ns: int) -> int:
        """Build these, of one tier and within an hour of each other. Returns how many were built: none while finer ones have to be first.

        `touches` were counted before the requests are read, so rows that arrive in between make the build out of date.
        """
        tier = stretches[0].tier
        first_s, end_s = min(stretch.start_s for stretch in stretches), max(stretch.end_s for stretch in stretches)
        finer = tier.finer
        if finer and first_s < now_ns // 10**9 - RELIED_S[finer.step_s]:
            finer = None
        if finer and self._due(finer, now_ns // 10**9, first_s, end_s):
            return 0
        build = max(time.time_ns(), *(stretch.build + len(stretches) for stretch in stretches))
        statements = {
            "demand": DEMAND_OF_REQUESTS,
            "metrics": METRICS_OF_SAMPLES,
            "rollups": ROLLUPS_OF_ROLLUPS if finer else ROLLUPS_OF_REQUESTS,
        }
        parameters = parameters_of(tier, first_s, end_s, build, finer)
        self._connection.command(statements[tier.kind], parameters)
        if tier.kind == "rollups":
            self._connection.command(SLICES_OF_ROLLUPS, parameters)
        touches = {stretch.start_s: stretch.touches for stretch in stretches}
        self._connection.insert_arrow("rollup_builds", builds_of(tier, first_s, build, touches))
        return len(stretches)

    def _due(self, tier: Tier, now_s: int, from_s: int, to_s: int | None = None) -> list[Stretch]:
        """What is over and written to since its last build, from `from_s` on and before `to_s`."""
        if tier.filled_s is not None:
            from_s = max(from_s, now_s - tier.filled_s)
        to_s = min(now_s - SETTLED_S, now_s if to_s is None else to_s)
        rows = self._connection.rows(
            "SELECT start_s, written, version FROM (SELECT toUInt32(intDiv(stretch * {touched_s:UInt32}, {step_s:UInt32})"
            f" * {{step_s:UInt32}}) AS start_s, sum(touches) AS written FROM {tier.touched}"
            " WHERE stretch >= {first:UInt32} AND stretch < {end:UInt32} GROUP BY start_s) AS touched"
            " LEFT JOIN (SELECT start_s, version, touches FROM rollup_builds FINAL"
            " WHERE kind = {kind:String} AND step_s = {step_s:UInt32}) AS built USING start_s WHERE touches != written",
            {
                "touched_s": TOUCHED_S,
                "first": -(-from_s // tier.step_s) * tier.step_s // TOUCHED_S,
                "end": to_s // tier.step_s * tier.step_s // TOUCHED_S,
                "kind": tier.kind,
                "step_s": tier.step_s,
            },
        )
        return [Stretch(tier, start_s, touches, build) for start_s, touches, build in rows]

    def insert_recorded(self, seconds: Mapping[int, float]) -> None:
        """Add the time for which requests were recorded, s by start of the stretch (a multiple of TOUCHED_S)."""
        if seconds:
            columns = {
                "start_s": pa.array(list(seconds), pa.uint32()),
                "recorded_s": pa.array(list(seconds.values()), pa.float32()),
            }
            self._connection.insert_arrow("recorded", pa.table(columns))

    def drop_dead_builds(self) -> None:
        """Drop the rows of builds that were replaced or never finished, once no query can be reading them."""
        old_ns = time.time_ns() - DEAD_KEPT_S * 10**9
        for kind, table in _TABLES:
            dead = f"build < {old_ns} AND build NOT IN (SELECT build FROM rollup_builds FINAL WHERE kind = '{kind}')"
            [(count,)] = self._connection.rows(f"SELECT count() FROM {table} WHERE {dead}")
            if count:
                self._connection.command(f"DELETE FROM {table} WHERE {dead}")


def together(stretches: Sequence[Stretch]) -> Iterator[list[Stretch]]:
    """Runs of stretches that one statement can fill: of one tier, one after the other, within an hour.

    They keep the order of `due_rollups`.
    """
    by_tier: dict[tuple[int, Tier], list[Stretch]] = {}
    for stretch in stretches:
        by_tier.setdefault((stretch.start_s // max(TOGETHER_S, stretch.tier.step_s), stretch.tier), []).append(stretch)
    for several in by_tier.values():
        run: list[Stretch] = []
        for stretch in sorted(several, key=lambda stretch: stretch.start_s):
            if run and run[-1].end_s != stretch.start_s:
                yield run
                run = []
            run.append(stretch)
        yield run
