"""Calendar quarters (UTC)."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from forecasting.capacity.months import quarter_hours

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
