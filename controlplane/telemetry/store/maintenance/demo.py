"""Writes and removes rollups and demand of synthetic requests, for a newcomer's long pages and plans.

Their builds have `touches` 0: nothing of them was ever written to `requests`. That tells them from those of real requests, which replace
them where some are written later.
"""

import time

import pyarrow as pa

from ..client import StorePart
from ..errors import StoreInputError
from ..tiers import TIERS, Tier
from .rollup_sql import DEMAND_OF_REQUESTS, ROLLUPS_OF_REQUESTS, SLICES_OF_ROLLUPS
from .rollups import builds_of, parameters_of

DRAFT = "demo_requests"
"""A table of the form of `requests`, which has one stretch at a time and is dropped at the end."""
STRETCH_S = 43_200
"""Synthetic history is whole half days, the longest step of rollups; the last ends where real requests begin."""
STEP_S = 300
"""Its end is a multiple of this."""
_KEPT = tuple(tier for tier in TIERS if tier.filled_s is None and tier.kind != "metrics")


class DemoFiller(StorePart):
    """Raises StoreUnavailableError or StoreError. Filling a stretch again replaces it."""

    def begin(self) -> None:
        self._connection.command(f"DROP TABLE IF EXISTS {DRAFT} SYNC")
        self._connection.command(
            f"CREATE TABLE {DRAFT} AS requests ENGINE = ReplacingMergeTree(version, withdrawn)"
            " ORDER BY (entry_start_ns, trace_id, request_id) SETTINGS allow_suspicious_low_cardinality_types = 1"
        )

    def fill(self, requests: pa.Table, start_s: int, end_s: int) -> None:
        """Roll up the synthetic requests of [start_s, end_s), at most a half day: each tier as far as its whole steps reach.

        Columns are some of those of `requests`.
        """
        if start_s % STRETCH_S or end_s % STEP_S or not start_s < end_s <= start_s + STRETCH_S:
            raise StoreInputError(
                f"{start_s} to {end_s} is no half day: give a multiple of {STRETCH_S}, and within as long a multiple of {STEP_S}"
            )
        self._connection.command(f"TRUNCATE TABLE {DRAFT}")
        self._connection.insert_arrow(DRAFT, requests)
        for tier in _KEPT:
            if (whole_s := end_s // tier.step_s * tier.step_s) > start_s:
                self._build(tier, start_s, whole_s)

    def end(self) -> None:
        self._connection.command(f"DROP TABLE IF EXISTS {DRAFT} SYNC")

    def delete(self) -> int:
        """Remove all synthetic history. Returns how many stretches it had."""
        made = "SELECT build FROM rollup_builds FINAL WHERE touches = 0 AND kind = '{}'"
        [(count,)] = self._connection.rows("SELECT count() FROM rollup_builds FINAL WHERE touches = 0")
        for table, kind in (("rollups", "rollups"), ("rollup_slices", "rollups"), ("demand", "demand")):
            self._connection.command(f"DELETE FROM {table} WHERE build IN ({made.format(kind)})")
        self._connection.command("DELETE FROM rollup_builds WHERE touches = 0")
        return int(count)

    def _build(self, tier: Tier, start_s: int, end_s: int) -> None:
        build = time.time_ns()
        statement = DEMAND_OF_REQUESTS if tier.kind == "demand" else ROLLUPS_OF_REQUESTS
        parameters = parameters_of(tier, start_s, end_s, build)
        self._connection.command(statement.replace(" FROM requests FINAL", f" FROM {DRAFT} FINAL"), parameters)
        if tier.kind == "rollups":
            self._connection.command(SLICES_OF_ROLLUPS, parameters)
        untouched = dict.fromkeys(range(start_s, end_s, tier.step_s), 0)
        self._connection.insert_arrow("rollup_builds", builds_of(tier, start_s, build, untouched))
