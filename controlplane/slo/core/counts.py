"""Counts of good and bad events."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Counts:
    """Events of a window: requests or timeslices. An event that is not judged is in neither number."""

    bad: int = 0
    total: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.bad <= self.total:
            raise ValueError(f"bad={self.bad} of total={self.total}: count every bad event in the total too")

    @property
    def good(self) -> int:
        return self.total - self.bad

    @property
    def error_ratio(self) -> float | None:
        """0..1; None without events."""
        return self.bad / self.total if self.total else None
