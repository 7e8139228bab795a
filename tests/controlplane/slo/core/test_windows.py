"""The workbook's numbers, and those that Sloth generates from them."""

import re
from pathlib import Path

import pytest

from controlplane.slo.core.burn import error_budget
from controlplane.slo.core.objective import Objective, Rolling
from controlplane.slo.core.period import check
from controlplane.slo.core.sli import Availability
from controlplane.slo.core.windows import DAY_S, HOUR_S, MINUTE_S, WORKBOOK, BurnWindow, lengths_s

UNITS = {"m": MINUTE_S, "h": HOUR_S, "d": DAY_S}


def test_thirty_days_have_the_workbooks_burn_rates() -> None:
    rates = [(one.severity, one.burn_rate(30 * DAY_S)) for one in WORKBOOK]
    assert [severity for severity, _ in rates] == ["page", "page", "ticket", "ticket"]
    assert [rate for _, rate in rates] == pytest.approx([14.4, 6, 3, 1], rel=1e-12)


@pytest.mark.parametrize(("file", "days"), [("out-base.yaml.tpl", 30), ("out-base-28d.yaml.tpl", 28)])
def test_windows_and_thresholds_are_sloths(shared_dir: Path, file: str, days: int) -> None:
    rules = (shared_dir / "fixtures" / "sloth" / file).read_text()
    pattern = r"ratio_rate(\d+)([mhd])\{[^}]*sloth_slo=\"slo1\"\} > \(([\d.]+) \* ([\d.]+)\)"
    theirs = [
        (int(number) * UNITS[unit], float(rate) * float(budget))
        for number, unit, rate, budget in re.findall(pattern, rules)
    ]
    ours = [
        (length, window.burn_rate(days * DAY_S) * error_budget(0.999))
        for window in WORKBOOK
        for length in (window.short_s, window.long_s)
    ]
    assert [length for length, _ in ours] == [length for length, _ in theirs]
    assert [threshold for _, threshold in ours] == pytest.approx([threshold for _, threshold in theirs], rel=1e-9)


def test_each_length_is_needed_once() -> None:
    minutes = [length // MINUTE_S for length in lengths_s(WORKBOOK)]
    assert minutes == [5, 30, 60, 120, 360, 1440, 4320]


@pytest.mark.parametrize(
    ("long_s", "short_s", "share", "says"),
    [
        (60, 60, 0.1, "short_s=60 is not below"),
        (60, 0, 0.1, "short_s=0"),
        (60, 5, 2.0, "use 0.02 for 2 %"),
        (60, 5, 0.0, "budget_share=0.0"),
    ],
)
def test_an_invalid_burn_window_is_refused(long_s: int, short_s: int, share: float, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        BurnWindow("page", long_s, short_s, share)


def test_a_window_longer_than_the_period_is_refused() -> None:
    with pytest.raises(ValueError, match="use shorter windows"):
        check(Objective("daily", "", Availability(), 0.99, period=Rolling(DAY_S)))
