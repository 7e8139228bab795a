"""Every step of a replay equals judging that step by itself."""

from datetime import datetime

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.slo.core.budget import budget
from controlplane.slo.core.burn import MinimumEvents, Verdict, judge, worst
from controlplane.slo.core.counts import Counts
from controlplane.slo.core.objective import Calendar, Objective, Rolling
from controlplane.slo.core.period import SECOND_NS, period_at
from controlplane.slo.core.sli import Availability
from controlplane.slo.core.windows import BurnWindow, lengths_s
from controlplane.slo.replay.core.episodes import replay
from controlplane.slo.replay.core.history import History
from tests.support.slo.episodes import runs

STEPS = 120
PERIODS = (Rolling(3600), Rolling(5000), Calendar("day", datetime(2026, 1, 1, 6), "Europe/Berlin"))


@st.composite
def windows(draw: st.DrawFn) -> BurnWindow:
    long_s = draw(st.integers(2, 40)) * 60
    return BurnWindow(
        draw(st.sampled_from(["page", "ticket"])), long_s, draw(st.integers(1, long_s - 1)), draw(st.floats(0.001, 0.2))
    )


@st.composite
def histories(draw: st.DrawFn) -> History:
    """With silence, light traffic and outages."""
    total: list[int] = []
    bad: list[int] = []
    while len(total) < STEPS:
        length = draw(st.integers(1, 40))
        volume, ratio = draw(st.sampled_from([0, 1, 7, 1000])), draw(st.sampled_from([0.0, 0.01, 0.1, 0.5, 1.0]))
        total += [volume] * length
        bad += [int(volume * ratio)] * length
    steps = draw(st.integers(0, STEPS))
    start_s = draw(st.integers(1_700_000_000, 1_700_100_000)) // 60 * 60
    return History(start_s, 60, np.array(bad[:steps], np.int64), np.array(total[:steps], np.int64), start_s)


objectives = st.builds(
    Objective,
    slug=st.just("o"),
    name=st.just("o"),
    indicator=st.just(Availability()),
    target=st.sampled_from([0.5, 0.9, 0.99, 0.999]),
    period=st.sampled_from(PERIODS),
    windows=st.lists(windows(), min_size=1, max_size=4).map(tuple),
    minimum=st.builds(MinimumEvents, st.integers(0, 100), st.integers(0, 5)),
)


def alone(history: History, objective: Objective, step: int) -> tuple[list[Verdict], float]:
    """By the functions the controller judges with, from the counts themselves."""
    at_s = history.at_s(step)
    counts = {length: count(history, low(history, at_s, length), step + 1) for length in lengths_s(objective.windows)}
    period = period_at(objective.period, (at_s - history.step_s) * SECOND_NS)
    if isinstance(objective.period, Rolling):
        first = low(history, at_s, objective.period.period_s)
    else:
        first = -((history.start_s - period.from_ns // SECOND_NS) // history.step_s)
    left = budget(count(history, max(first, 0), step + 1), objective.target).left_share
    return judge(counts, objective.target, period.length_s, objective.windows, objective.minimum), left


def low(history: History, at_s: int, length_s: int) -> int:
    """The first step of a window, whose edges lie on minutes, or on hours where it is longer than three days."""
    grid = 3_600 if length_s > 3 * 86_400 else 60
    edge_s = -(-at_s // grid) * grid - -(-length_s // grid) * grid
    return max(-(-(edge_s - history.start_s) // 60), 0)


def count(history: History, low: int, high: int) -> Counts:
    return Counts(int(history.bad[low:high].sum()), int(history.total[low:high].sum()))


def number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


@settings(max_examples=60, deadline=None)
@given(histories(), objectives)
def test_every_verdict_and_budget_is_the_same(history: History, objective: Objective) -> None:
    found = replay(history, objective)
    severities = []
    for step in range(history.steps):
        verdicts, left = alone(history, objective, step)
        assert [
            (number(one.long[step]), number(one.short[step]), float(one.threshold[step]), bool(one.fires[step]))
            for one in found.judged.windows
        ] == [(one.long, one.short, one.threshold, one.fires) for one in verdicts]
        assert found.judged.left_share[step] == left
        firing = worst(verdicts)
        severities.append(firing.window.severity if firing else None)
    assert [(one.severity, one.opened_s, one.closed_s) for one in found.episodes] == runs(history, severities)
    assert [("page", one.opened_s, one.closed_s) for one in found.pages] == runs(
        history, [one if one == "page" else None for one in severities]
    )
