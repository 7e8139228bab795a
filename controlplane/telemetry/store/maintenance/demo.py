"""Writes and removes rollups and demand of synthetic requests, for a newcomer's long pages and plans.

Their builds have `touches` 0: nothing of them was ever written to `requests`. That tells them from those of real requests, which replace
them where some are written later.
"""

import time

import pyarrow as pa

from ..client import Connection
from ..errors import StoreInputError
from .rollup_sql import DEMAND_OF_REQUESTS, LONGEST_S, ROLLUPS_OF_REQUESTS, SLICES_OF_ROLLUPS
from .rollups import TIERS, Tier

DRAFT = "demo_requests"
"""A table of the form of `requests`, which has one stretch at a time and is dropped at the end."""
STRETCH_S = 43_200
"""Synthetic history is whole half days: the longest step of rollups."""
_KEPT = tuple(tier for tier in TIERS if tier.filled_s is None and tier.kind != "metrics")


class DemoFiller(Connection):
    """Raises StoreUnavailableError or StoreError. Filling a stretch again replaces it."""

    def begin_demo(self) -> None:
        self.command(f"DROP TABLE IF EXISTS {DRAFT} SYNC")
        self.command(
            f"CREATE TABLE {DRAFT} AS requests ENGINE = ReplacingMergeTree(version, withdrawn)"
            " ORDER BY (entry_start_ns, trace_id, request_id) SETTINGS allow_suspicious_low_cardinality_types = 1"
        )

    def fill_demo(self, requests: pa.Table, start_s: int) -> None:
        """Roll up the synthetic requests of the STRETCH_S from `start_s` on. Columns are some of those of `requests`."""
        if start_s % STRETCH_S:
            raise StoreInputError(f"start_s {start_s} is not a multiple of {STRETCH_S}: give the start of a half day")
        self.command(f"TRUNCATE TABLE {DRAFT}")
        self.insert_arrow(DRAFT, requests)
        for tier in _KEPT:
            self._build(tier, start_s)

    def end_demo(self) -> None:
        self.command(f"DROP TABLE IF EXISTS {DRAFT} SYNC")

    def delete_demo(self) -> int:
        """Remove all synthetic history. Returns how many stretches it had."""
        made = "SELECT build FROM rollup_builds FINAL WHERE touches = 0 AND kind = '{}'"
        [(count,)] = self.rows("SELECT count() FROM rollup_builds FINAL WHERE touches = 0")
        for table, kind in (("rollups", "rollups"), ("rollup_slices", "rollups"), ("demand", "demand")):
            self.command(f"DELETE FROM {table} WHERE build IN ({made.format(kind)})")
        self.command("DELETE FROM rollup_builds WHERE touches = 0")
        return int(count)

    def _build(self, tier: Tier, start_s: int) -> None:
        build, end_s = time.time_ns(), start_s + STRETCH_S
        statement = DEMAND_OF_REQUESTS if tier.kind == "demand" else ROLLUPS_OF_REQUESTS
        starts = list(range(start_s, end_s, tier.length_s))
        parameters = {
            "from_s": start_s,
            "to_s": end_s,
            "from_ns": start_s * 10**9,
            "to_ns": end_s * 10**9,
            "build": build,
            "builds": len(starts),
            "length_s": tier.length_s,
            "step_s": tier.step_s,
            "step_ns": tier.step_s * 10**9,
            "longest_ns": LONGEST_S * 10**9,
        }
        self.command(statement.replace(" FROM requests FINAL", f" FROM {DRAFT} FINAL"), parameters)
        if tier.kind == "rollups":
            self.command(SLICES_OF_ROLLUPS, parameters)
        builds = [build + number for number in range(len(starts))]
        table = pa.table(
            {
                "kind": [tier.kind] * len(starts),
                "step_s": [tier.step_s] * len(starts),
                "start_s": starts,
                "version": builds,
                "build": builds,
                "touches": [0] * len(starts),
            }
        )
        self.insert_arrow("rollup_builds", table)
