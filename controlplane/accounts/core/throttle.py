"""How many requests each caller may send: so many at once, which come back evenly over a minute (GCRA, ITU-T I.371)."""

from threading import Lock

MINUTE_S = 60.0
_MAX_KNOWN = 10_000


class Throttle:
    """Of one process. `now_s` is on a clock that does not go back."""

    def __init__(self) -> None:
        self._free_s: dict[int, float] = {}  # when all that a caller has sent is given back
        self._lock = Lock()

    def wait_s(self, caller: int, per_minute: int, now_s: float) -> float:
        """Count a request. 0 if it is let in, else how long until one is, and nothing is counted."""
        step_s = MINUTE_S / per_minute
        with self._lock:
            if len(self._free_s) >= _MAX_KNOWN:
                self._free_s = {known: free_s for known, free_s in self._free_s.items() if free_s > now_s}
            free_s = max(self._free_s.get(caller, now_s), now_s) + step_s
            if free_s - now_s > MINUTE_S + step_s / 1000:  # rounding
                return free_s - now_s - MINUTE_S
            self._free_s[caller] = free_s
            return 0.0
