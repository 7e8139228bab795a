"""What was counted over time, and the sums over any window of it."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class History:
    """Good and bad events of equal steps. Nothing is known of what was before `start_s`.

    Times are s since the epoch. Judgements are told from `judged_from_s` on; what is before fills the windows.
    """

    start_s: int
    step_s: int
    bad: Ints
    total: Ints
    judged_from_s: int

    def __post_init__(self) -> None:
        if self.bad.shape != self.total.shape or self.bad.ndim != 1:
            raise ValueError(
                f"bad={self.bad.shape} and total={self.total.shape} differ in shape: give one number per step"
            )
        if self.step_s < 1:
            raise ValueError(f"step_s={self.step_s} is below 1: use 60")
        if (self.bad < 0).any() or (self.bad > self.total).any():
            raise ValueError("bad is not between 0 and total in every step: count every bad event in the total too")

    @property
    def steps(self) -> int:
        return len(self.bad)

    @property
    def end_s(self) -> int:
        return self.start_s + self.steps * self.step_s

    @property
    def first(self) -> int:
        """The first step that is told."""
        return max(0, -(-(self.judged_from_s - self.start_s) // self.step_s))

    def at_s(self, step: int) -> int:
        """When a step ends, and is judged."""
        return self.start_s + (step + 1) * self.step_s


class Sums:
    """Of a history's counts over windows: prefix sums make each of them two look-ups."""

    def __init__(self, history: History) -> None:
        self._bad = np.concatenate([[0], np.cumsum(history.bad, dtype=np.int64)])
        self._total = np.concatenate([[0], np.cumsum(history.total, dtype=np.int64)])
        self._step_s, self._steps = history.step_s, history.steps

    def last(self, length_s: int) -> tuple[Ints, Ints, npt.NDArray[np.bool_]]:
        """Bad and total of the last `length_s` at the end of every step, and whether history reaches so far back.

        A length that is no whole number of steps is rounded up to one.
        """
        width = -(-length_s // self._step_s)
        ends = np.arange(1, self._steps + 1)
        starts = np.maximum(ends - width, 0)
        reaches = ends * self._step_s >= length_s
        return self._bad[ends] - self._bad[starts], self._total[ends] - self._total[starts], reaches

    def since(self, starts: Ints) -> tuple[Ints, Ints]:
        """Bad and total from these steps on until the end of every step."""
        ends = np.arange(1, self._steps + 1)
        return self._bad[ends] - self._bad[starts], self._total[ends] - self._total[starts]
