"""How long a client over HTTP/2 is borne that sends what asks for nothing, or nothing at all."""

from inference.core import http2 as h2

_MAX_IDLE_FRAMES = 500
_FORGIVEN_A_SECOND = 50
_SILENCE_S = 15.0


class IdleFrames:
    """Counts what costs work and asks for nothing: pings, settings, resets, empty data (CVE-2019-9512 to 9518,
    CVE-2023-44487). An answer makes up for one of them, and so does time.
    """

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def add(self) -> None:
        """Raises ProtocolError when it is too much."""
        self._count += 1
        if self._count > _MAX_IDLE_FRAMES:
            raise h2.ProtocolError("too many frames that ask for nothing", h2.ENHANCE_YOUR_CALM)

    def answered(self) -> None:
        if self._count:
            self._count -= 1

    def second_passed(self) -> None:
        self._count = max(0, self._count - _FORGIVEN_A_SECOND)


class SignsOfLife:
    """Notices a client that waits for an answer and has gone without a word, so that nobody works for it."""

    __slots__ = ("_pinged_s", "_since_s", "heard")

    def __init__(self) -> None:
        self.heard = True  # set it when something arrives
        self._since_s = self._pinged_s = 0.0

    def look(self, now_s: float, waits: bool) -> bytes | None:
        """What to send: a ping after 15 s of silence, else nothing. None if that is not answered within 15 s."""
        if self.heard or not waits:
            self.heard, self._since_s, self._pinged_s = False, now_s, 0.0
        elif self._pinged_s:
            return None if now_s - self._pinged_s > _SILENCE_S else b""
        elif now_s - self._since_s > _SILENCE_S:
            self._pinged_s = now_s
            return h2.frame(h2.PING, 0, 0, bytes(8))
        return b""
