"""Calendar quarters (UTC), and the plan of one."""

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from controlplane.planning.inputs import plan_inputs
from forecasting.capacity.assumptions import HOUR_S
from forecasting.capacity.months import quarter_hours
from forecasting.capacity.plan import Plan
from forecasting.capacity.replicas import make_plan

PATTERN = r"^(20[0-9]{2})-Q([1-4])$"
_FORM = re.compile(PATTERN)


@dataclass(frozen=True, slots=True)
class Quarter:
    year: int
    number: int  # 1..4

    @classmethod
    def parse(cls, text: str) -> "Quarter":
        """Of `2027-Q1`. Raises ValueError."""
        match = _FORM.match(text)
        if match is None:
            raise ValueError("is not a quarter")
        return cls(int(match[1]), int(match[2]))

    @classmethod
    def at(cls, at_s: int) -> "Quarter":
        moment = datetime.fromtimestamp(at_s, UTC)
        return cls(moment.year, (moment.month + 2) // 3)

    @property
    def name(self) -> str:
        return f"{self.year}-Q{self.number}"

    @property
    def start_s(self) -> int:
        return quarter_hours(self.year, self.number)[0]

    @property
    def hours(self) -> int:
        return quarter_hours(self.year, self.number)[1]

    @property
    def following(self) -> "Quarter":
        return Quarter(self.year + self.number // 4, self.number % 4 + 1)


def quarters_from(at_s: int, count: int) -> list[Quarter]:
    """The quarter of a time and those that follow it."""
    quarters = [Quarter.at(at_s)]
    while len(quarters) < count:
        quarters.append(quarters[-1].following)
    return quarters


class QuarterOverError(ValueError):
    """Permanent: the quarter has ended, and a plan is of hours to come."""


def quarter_plan(quarter: Quarter, level: float | None, growth_per_week: float, now_s: int) -> Plan:
    """The plan of the quarter, or of what is left of it. `growth_per_week` (0.02 is 2 %) counts beyond the end of the forecasts.

    Raises QuarterOverError.
    """
    start_s = max(quarter.start_s, now_s // HOUR_S * HOUR_S)
    hours = (quarter.start_s + quarter.hours * HOUR_S - start_s) // HOUR_S
    if hours < 1:
        raise QuarterOverError(f"{quarter.name} is over: choose {Quarter.at(now_s).name} or a later one")
    return make_plan(replace(plan_inputs(start_s, hours, level), growth_per_week=growth_per_week))
