"""A replay has the pages that the controller would have had, each with its beginning, severity and end.

The ledger is in memory and shows what had been served by then, so that hundreds of histories can be run minute by minute.
"""

import random
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from controlplane.slo.core.burn import MinimumEvents
from controlplane.slo.core.objective import Calendar, Objective, Occurrences, Rolling, Timeslices
from controlplane.slo.core.period import longest_s
from controlplane.slo.core.sli import Availability
from controlplane.slo.core.windows import DAY_S, HOUR_S, BurnWindow
from controlplane.slo.evaluate.evaluator import Evaluator
from controlplane.slo.replay.core.episodes import replay
from controlplane.slo.replay.recorded_history import histories, step_of
from controlplane.telemetry.core.objective_counts import Classes, Cut
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.store import Store
from controlplane.telemetry.store.read.objectives import TALLY_SCHEMA
from tests.support.slo.episodes import runs
from tests.support.soak import sized

NS = 10**9
END_S = 500_000 * HOUR_S + 700
LENGTHS_S = (60, 90, 300, 1_800, HOUR_S, 7_200, 6 * HOUR_S, DAY_S, 4 * DAY_S)


class Ledger:
    """Requests by second: when, how many, how many of them bad."""

    def __init__(self, seconds: Sequence[int], bad: Sequence[int], total: Sequence[int]) -> None:
        self.objectives = self  # the part of the store that is asked
        self.now_s = END_S
        self._seconds = np.array(seconds, np.int64)
        self._counts = np.array([np.array(total) - np.array(bad), bad], np.int64)

    def classes(self, window: Window, cuts: Sequence[Cut], dimensions: Mapping[str, Any], step_s: int) -> Classes:
        until = min(window.to_ns // NS, self.now_s + 1)
        here = (self._seconds >= window.from_ns // NS) & (self._seconds < until)
        step, place = np.tile(self._seconds[here] // step_s, 2), np.repeat([0, 1], here.sum())
        requests = self._counts[:, here].ravel()
        nothing = np.zeros(len(step), np.int64)
        return Classes(step, {}, nothing, place, nothing.astype(bool), requests)

    def oldest_entry(self) -> int | None:
        before = self._seconds[self._seconds <= self.now_s]
        return int(before.min()) * NS if len(before) else None

    def tallies(self, *_: object) -> pa.Table:
        return TALLY_SCHEMA.empty_table()

    def insert_tallies(self, columns: pa.Table) -> None:
        """Nobody asks for them."""


def ledger(source: random.Random) -> Ledger:
    """Short (minutes of it), gapped, or full; light or busy; with outages."""
    length_s = source.choice((900, 2 * HOUR_S, 9 * HOUR_S, 2 * DAY_S, 5 * DAY_S))
    seconds, bad, total = [], [], []
    at_s = END_S - length_s + source.randrange(3_000)
    every_s = source.choice((7, 30, 60)) if length_s < DAY_S else 240
    while at_s < END_S:
        until_s = at_s + source.choice((300, 900, 3_600, 20_000))
        ratio = source.choice((0.0, 0.0, 0.01, 0.05, 0.5, 1.0))
        if source.random() < 0.2:
            at_s = until_s  # nobody asked
        while at_s < min(until_s, END_S):
            requests = source.choice((1, 5, 40))
            seconds.append(at_s)
            total.append(requests)
            bad.append(sum(source.random() < ratio for _ in range(requests)))
            at_s += every_s
    return Ledger(seconds, bad, total)


def objective(source: random.Random) -> Objective:
    period = source.choice(
        (
            Rolling(DAY_S),
            Rolling(5 * DAY_S),
            Rolling(30 * DAY_S),
            Calendar("day", datetime(2026, 1, 1), "Asia/Kolkata"),
            Calendar("week", datetime(2026, 1, 5, 6, 10), "Europe/Berlin"),
        )
    )
    windows = []
    for _ in range(source.randrange(1, 4)):
        long_s = source.choice([one for one in LENGTHS_S[1:] if one <= longest_s(period)])
        short_s = source.choice([one for one in LENGTHS_S if one < long_s])
        windows.append(
            BurnWindow(source.choice(("page", "ticket")), long_s, short_s, source.choice((0.002, 0.02, 0.1)))
        )
    sliced = source.random() < 0.5
    return Objective(
        "o",
        "o",
        Availability(),
        source.choice((0.5, 0.9, 0.99, 0.999)),
        period=period,
        windows=tuple(windows),
        minimum=MinimumEvents(source.choice((0, 10, 50)), source.choice((0, 3))),
        method=Timeslices(source.choice((20, 60, 300, 900, 1_200, 3_600)), source.choice((0.5, 0.95))) if sliced else Occurrences(),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(sized(20, soak=200)))
def test_they_agree_on_every_page(seed: int) -> None:
    source = random.Random(seed)
    recorded, wanted = ledger(source), objective(source)
    step_s = step_of(wanted)
    end_s = END_S // step_s * step_s
    from_s = end_s - 45 * step_s
    [history] = histories(cast(Store, recorded), wanted, [], from_s, end_s).values()
    found = replay(history, wanted)

    evaluator = Evaluator(cast(Store, recorded))
    severities, shares = [], []
    for at_s in range(max(from_s, history.start_s) + step_s, end_s + 1, step_s):
        recorded.now_s = at_s - 1
        if not severities:
            evaluator.tick([wanted], [], recorded.now_s * NS)
            while evaluator.sweep(recorded.now_s * NS):
                pass
        [alert] = [one.alert for one in evaluator.tick([wanted], [], recorded.now_s * NS)]
        assert alert.state != "unknown"
        severities.append(alert.severity)
        shares.append(alert.budget.left_share if alert.budget else None)

    first = history.first
    assert [(one.severity, one.opened_s, one.closed_s) for one in found.episodes] == runs(history, severities, first)
    paged = runs(history, [one if one == "page" else None for one in severities], first)
    assert [("page", one.opened_s, one.closed_s) for one in found.pages] == paged
    assert (
        found.judged.left_share[first:].tolist() or [1.0] * len(shares)
    ) == shares  # without a request there are no steps
