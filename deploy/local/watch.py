"""Asks parts questions, each in a thread of its own, so that a part that hangs delays the care for no other."""

import http.client
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patience:
    """When a running part counts as hung. All in seconds.

    `silent_s` is longer than it takes to open an incident: the worker asks every `WEIR_OBSERVE_EVERY_S` (5 s), waits for at most
    `WEIR_OBSERVE_TIMEOUT_S` (2 s), and pages after `WEIR_COMPONENT_PAGE_AFTER_S` (15 s). So a hang is an incident before the
    restart ends it. It is also longer than any part may take to drain (the supervisor itself allows 10 s), during which a part
    refuses connections.
    """

    ask_every_s: float = 5.0
    silent_s: float = 30.0
    jump_s: float = 5.0  # the supervisor itself stood still for so long: what was not answered meanwhile does not count


class Question:
    """One question. It is asked at once."""

    def __init__(self, ask: Callable[[], object]) -> None:
        self.asked_at = time.monotonic()
        self.answer: object = None
        self.answered = False  # false too when nobody answered: the question raised OSError
        self._ask = ask
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def over(self) -> bool:
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self.answer = self._ask()
        except http.client.HTTPException as error:
            self.answered = not isinstance(error, OSError)  # RemoteDisconnected is both, and is no answer
        except OSError:
            pass
        else:
            self.answered = True


class Watch:
    """Asks one running part again and again whether it answers, and knows for how long it has not."""

    def __init__(self, ask: Callable[[], object], every_s: float) -> None:
        self._ask = ask
        self._every_s = every_s
        self._question: Question | None = None
        self._silent_since: float | None = None  # when the first question was asked that has no answer yet

    def silent_s(self, now: float) -> float:
        """For how long the part has not answered at `now` (monotonic), s. Asks the next question when it is due; returns at once."""
        if self._question is not None and self._question.over and self._question.answered:
            self._silent_since = None
        if self._question is None or (self._question.over and now - self._question.asked_at >= self._every_s):
            self._question = Question(self._ask)
            self._silent_since = self._silent_since or self._question.asked_at
        return 0.0 if self._silent_since is None else now - self._silent_since
