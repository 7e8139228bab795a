"""What is kept of a time: its requests, rollups, or neither; and the steps and ends that a page of it can have."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from controlplane.telemetry.core.query_types import Dimension, Filters, Window, filtered_by

from ..client import StorePart
from ..tiers import HALF_DAY_S, HOUR_S, RELIED_S
from .where import Where, column

LONG_NS = 6 * 3600 * 10**9
"""Longer windows are answered out of rollups."""
DIMENSIONS: frozenset[str] = frozenset({"model", "variant", "pool", "tier", "region", "cache", "status"})
"""Filters and groups that rollups have."""
KNOWN_FOR_S = 10.0
"""How long the answer of `kept` is used again, s."""


@dataclass(frozen=True, slots=True)
class Kept:
    """When the oldest stored request entered, and the oldest hour of rollups starts, ns since the epoch; None where there is none.

    `made_up`: the oldest hour is synthetic.
    """

    requests_ns: int | None = None
    rollups_ns: int | None = None
    made_up: bool = False

    @property
    def rollups_alone(self) -> Window | None:
        """The time of which there are rollups and no requests any more."""
        if self.rollups_ns is None:
            return None
        if self.requests_ns is None:
            return Window(self.rollups_ns, 2**63)
        end_ns = _down(self.requests_ns, HOUR_S)
        return Window(self.rollups_ns, end_ns) if self.rollups_ns < end_ns else None

    def has_older(self, window: Window) -> bool:
        """Whether of a part of the window there are rollups and no requests any more."""
        alone = self.rollups_alone
        return alone is not None and window.from_ns < alone.to_ns and window.to_ns > alone.from_ns

    def lost(self, window: Window) -> bool:
        """Whether a window has to be read from rollups because its requests, or the first of them, are no longer there.

        One of up to LONG_NS that has requests is of these alone, so that its steps may be short.
        """
        if not self.has_older(window):
            return False
        return window.to_ns - window.from_ns > LONG_NS or self.requests_ns is None or window.to_ns <= self.requests_ns


class RetainedReader(StorePart):
    """Says what is kept."""

    _kept: tuple[float, Kept] = (0.0, Kept())

    def kept(self) -> Kept:
        """Read from the indexes of the parts, at most every KNOWN_FOR_S."""
        read_s, kept = self._kept
        if kept.requests_ns is None or kept.rollups_ns is None or time.monotonic() - read_s > KNOWN_FOR_S:
            by_table = {
                name: values
                for name, *values in self._connection.rows(
                    "SELECT 'requests', count(), min(entry_start_ns), 0 FROM requests UNION ALL"
                    " SELECT 'rollups', count(), min(start_s), argMin(touches, start_s)"
                    " FROM rollup_builds FINAL WHERE kind = 'rollups' AND step_s = 3600"
                )
            }
            requests, oldest_ns, _ = by_table["requests"]
            builds, oldest_s, touches = by_table["rollups"]
            kept = Kept(
                oldest_ns if requests else None, oldest_s * 10**9 if builds else None, bool(builds and not touches)
            )
            self._kept = time.monotonic(), kept
        return kept

    def stored_by(self, condition: Where, dimensions: Sequence[Dimension]) -> dict[Dimension, dict[str, int]]:
        """Stored copies of requests by value of each of these dimensions, in one reading."""
        counted: dict[Dimension, dict[str, int]] = {name: {} for name in dimensions}
        if not dimensions:
            return counted
        names = [column(name) for name in dimensions]
        rows = self._connection.rows(
            f"SELECT grouping({', '.join(names)}), [{', '.join(f'toString({name})' for name in names)}], count() FROM requests"
            f" WHERE {condition.sql} AND withdrawn = 0 GROUP BY GROUPING SETS ({', '.join(f'({name})' for name in names)})",
            condition.parameters,
        )
        all_but = {2 ** len(names) - 1 - 2 ** (len(names) - 1 - at): at for at in range(len(names))}
        for bits, values, number in rows:
            counted[dimensions[all_but[bits]]][values[all_but[bits]]] = number
        return counted


def kept_step_s(window: Window, filters: Filters, now_s: int, kept: Kept) -> int:
    """The shortest step, s, by which a window's requests are still kept; 1 where the requests are, or rollups lack a filter.

    Of older time hours remain, and of all dimensions, which several filters need, half days.
    """
    chosen = filtered_by(filters)
    if not kept.lost(window) or not DIMENSIONS.issuperset(chosen):
        return 1
    age_s = now_s - window.from_ns // 10**9
    return HOUR_S if is_sliced(chosen) or age_s <= RELIED_S[HOUR_S] else HALF_DAY_S


def rounded(window: Window, filters: Filters, now_s: int, kept: Kept) -> Window:
    """The window with its ends on the steps that are kept, where these are no longer those of its requests."""
    step_s = kept_step_s(window, filters, now_s, kept)
    if step_s == 1:
        return window
    to_ns = window.to_ns
    if kept.requests_ns is None or to_ns < kept.requests_ns:
        to_ns = min(-_down(-to_ns, step_s), max(to_ns, kept.requests_ns or now_s * 10**9))
    return Window(_down(window.from_ns, step_s), to_ns)


def is_sliced(names: Iterable[Dimension | str]) -> bool:
    """Whether slices have requests by these dimensions: by one of them, and by status."""
    return len(set(names) - {"status"}) <= 1


def _down(at_ns: int, step_s: int) -> int:
    return at_ns // (step_s * 10**9) * step_s * 10**9
