"""How many lines of a model are in flight at a time: as many as its pool has room for beside all other requests.

Grown by a part and cut by half, as TCP's window is (Chiu and Jain, "Analysis of the Increase and Decrease Algorithms for
Congestion Avoidance in Computer Networks", 1989), but the gateway says with each answer how much room there is. So a few lines
wait in its queue, where they are the last, and no more.
"""

from dataclasses import dataclass, field

FIRST_PLACES = 16
"""Of a model that nothing is known of. Until an answer says more, it stays so."""
_TURNED_AWAY = (0, 429, 503, 504)
"""Nobody answered, or nobody had room."""


@dataclass(slots=True)
class Window:
    """Of one model. Times are of any clock that only goes on, seconds."""

    most: int
    size: float
    in_flight: int = 0
    _cut_s: float = field(default=float("-inf"))

    @property
    def room(self) -> int:
        """How many more may be sent."""
        return max(0, int(self.size) - self.in_flight)

    def answered(self, status: int, room: int | None, sent_s: float, now_s: float) -> None:
        """A line was answered, which is in flight still. `room` is what the gateway said with its answer, less than 0 where requests
        wait; None if it said nothing, which changes nothing. Lines that were sent before a cut do not cut again.
        """
        was_full = self.in_flight >= int(self.size)
        if status in _TURNED_AWAY:
            if sent_s >= self._cut_s:
                self.size, self._cut_s = max(1.0, self.size / 2), now_s
        elif room is not None and (was_full or room < 0):
            step = max(-1.0, min(1.0, room / self.size))
            self.size = max(1.0, min(float(self.most), self.size + step))


class Windows:
    """Those of all models. `most` bounds each."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._of: dict[str, Window] = {}

    def of(self, model: str) -> Window:
        if model not in self._of:
            self._of[model] = Window(self._most, float(min(FIRST_PLACES, self._most)))
        return self._of[model]

    def room(self, model: str) -> int:
        return self.of(model).room
