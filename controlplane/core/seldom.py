"""Says what goes wrong again and again: when it begins, each minute while it lasts, and when it is over."""

import time

EVERY_S = 60.0


class Seldom:
    """Of one thing that is tried again and again."""

    def __init__(self) -> None:
        self._said: type[BaseException] | None = None
        self._said_s = float("-inf")
        self._lasts = False

    def fails(self, error: BaseException) -> bool:
        """Whether to say that it fails, as it does now: once a minute, and at once where the error is of another class than the last."""
        now_s = time.monotonic()
        if type(error) is self._said and now_s - self._said_s < EVERY_S:
            return False
        self._said, self._said_s, self._lasts = type(error), now_s, True
        return True

    def works(self) -> bool:
        """Whether to say that it works again, as it does now."""
        lasted, self._lasts = self._lasts, False
        return lasted
