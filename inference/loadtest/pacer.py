"""Calls at times that were fixed beforehand."""

import asyncio
import threading
import time
from array import array
from collections.abc import Callable, Sequence

now_s = time.perf_counter
BEAT_S = 0.05


class Pacer(threading.Thread):
    """A thread that has the loop call `send(number)` when each of `due_s` has come: the loop's own timers know milliseconds alone. What
    is late is sent at once, and moves nothing that comes after it. `beats_s` is how late the loop was, some times a second.
    """

    def __init__(
        self, due_s: Sequence[float], began_s: float, send: Callable[[int], None], ended: Callable[[], None]
    ) -> None:
        super().__init__(daemon=True, name="pacer")
        self.beats_s = array("d")
        self._due_s, self._began_s, self._send, self._ended = due_s, began_s, send, ended
        self._loop = asyncio.get_running_loop()
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Send no more."""
        self._stopped.set()

    def run(self) -> None:
        beat_s = now_s()
        for number, due_s in enumerate(self._due_s):
            while (wait_s := self._began_s + due_s - now_s()) > 0:
                if self._stopped.wait(min(wait_s, BEAT_S)):
                    break
                if now_s() - beat_s > BEAT_S:
                    beat_s = now_s()
                    self._loop.call_soon_threadsafe(self._beat, beat_s)
            if self._stopped.is_set():
                break
            self._loop.call_soon_threadsafe(self._send, number)
        self._loop.call_soon_threadsafe(self._ended)

    def _beat(self, due_s: float) -> None:
        self.beats_s.append(now_s() - due_s)
