"""Probes parts, each in a thread of its own, so that a part that hangs delays no other."""

import http.client
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patience:
    """When a running part counts as hung. All in seconds.

    `silent_s` is longer than it takes to open an incident: the worker probes every `WEIR_OBSERVE_EVERY_S` (5 s), waits for at most
    2 s, and pages after `WEIR_COMPONENT_PAGE_AFTER_S` (15 s). So a hang is an incident before the
    restart ends it. It is also longer than any part may take to drain (the supervisor itself allows 10 s), during which a part
    refuses connections.
    """

    probe_every_s: float = 5.0
    silent_s: float = 30.0
    jump_s: float = (
        5.0  # the supervisor itself stood still for so long: answers that are missing from that time do not count
    )


class Probe:
    """One call of `send`, which starts at once."""

    def __init__(self, send: Callable[[], object]) -> None:
        self.sent_at = time.monotonic()
        self.answer: object = None
        self.answered = False  # false too when there was no answer: `send` raised OSError
        self._send = send
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def over(self) -> bool:
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self.answer = self._send()
        except http.client.HTTPException as error:
            self.answered = not isinstance(error, OSError)  # RemoteDisconnected is an OSError too, and is no answer
        except OSError:
            pass
        else:
            self.answered = True


class Watch:
    """Probes one running part again and again, and measures for how long it has not answered."""

    def __init__(self, send: Callable[[], object], every_s: float) -> None:
        self._send = send
        self._every_s = every_s
        self._probe: Probe | None = None
        self._silent_since: float | None = None  # when the first probe without an answer was sent

    def silent_s(self, now: float) -> float:
        """For how long the part has not answered at `now` (monotonic), s. Sends the next probe when it is due; returns at once."""
        if self._probe is not None and self._probe.over and self._probe.answered:
            self._silent_since = None
        if self._probe is None or (self._probe.over and now - self._probe.sent_at >= self._every_s):
            self._probe = Probe(self._send)
            self._silent_since = self._silent_since or self._probe.sent_at
        return 0.0 if self._silent_since is None else now - self._silent_since
