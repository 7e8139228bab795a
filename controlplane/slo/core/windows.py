"""Multi-window, multi-burn-rate alerting as data.

Google, *The Site Reliability Workbook*, chapter 5, table 5-8: an alert fires when a share of the period's budget is used within
the long window; the short window, a twelfth of it, ends the alert soon after the burning ends. Burn rate =
share of the budget × period ÷ long window, so other periods than 30 days have other rates, as in Sloth.
"""

from dataclasses import dataclass
from typing import Literal

MINUTE_S = 60
HOUR_S = 60 * MINUTE_S
DAY_S = 24 * HOUR_S

Severity = Literal["page", "ticket"]
SEVERITIES: tuple[Severity, ...] = ("page", "ticket")
FINE_S = 6 * HOUR_S
MINUTES_S = 3 * DAY_S


@dataclass(frozen=True, slots=True)
class BurnWindow:
    severity: Severity
    long_s: int
    short_s: int
    budget_share: float  # of the whole period's budget, used within `long_s`

    def __post_init__(self) -> None:
        if not 0 < self.short_s < self.long_s:
            raise ValueError(f"short_s={self.short_s} is not below long_s={self.long_s}: use about a twelfth of it")
        if not 0 < self.budget_share <= 1:
            raise ValueError(f"budget_share={self.budget_share} is not above 0 and at most 1: use 0.02 for 2 %")

        if self.severity not in SEVERITIES:
            raise ValueError(f"severity={self.severity!r} is unknown: use {' or '.join(SEVERITIES)}")

    def burn_rate(self, period_s: int) -> float:
        """The rate that both windows must exceed; 1 uses exactly the budget in `period_s`.

        On a calendar's shorter days or months the rate is a little lower.
        """
        return self.budget_share * period_s / self.long_s


WORKBOOK = (
    BurnWindow("page", HOUR_S, 5 * MINUTE_S, 0.02),
    BurnWindow("page", 6 * HOUR_S, 30 * MINUTE_S, 0.05),
    BurnWindow("ticket", DAY_S, 2 * HOUR_S, 0.10),
    BurnWindow("ticket", 3 * DAY_S, 6 * HOUR_S, 0.10),
)


def grid_s(length_s: int) -> int:
    """The grid that the edges of a window of this length lie on, s."""
    return 10 if length_s <= FINE_S else MINUTE_S if length_s <= MINUTES_S else HOUR_S


def lengths_s(windows: tuple[BurnWindow, ...]) -> list[int]:
    """Every length for which counts are needed, shortest first."""
    return sorted({length for window in windows for length in (window.short_s, window.long_s)})
