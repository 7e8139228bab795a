"""Finds out that a connection is dead while calls wait on it, by HTTP/2 pings."""

import asyncio
from typing import Protocol

_MAX_PINGS = 2  # without an answer to a call between them
# After those: the least that servers allow by default, and end the connection for else.
_SLOW_S = 300.0


class Keepalive:
    """While calls are in flight and nothing has arrived for `time_s`, the server is pinged; if nothing has arrived after another
    `timeout_s`, the connection is given up. After two pings without an answer to a call, the next one follows in five
    minutes.

    The rules and the servers' limits are those of gRPC's doc/keepalive.md. One value belongs to all connections of a
    channel, because `too_many` must hold for the next one.
    """

    def __init__(self, time_s: float = 30.0, timeout_s: float = 20.0) -> None:
        self.time_s = time_s
        self.timeout_s = timeout_s

    def too_many(self) -> None:
        """The server has closed a connection for its pings (`too_many_pings`): gRPC then doubles the time."""
        self.time_s *= 2


class Watched(Protocol):
    """A connection that is kept alive. `arrivals` counts what came from the server, `answers` the parts of answers in it."""

    loop: asyncio.AbstractEventLoop
    arrivals: int
    answers: int

    @property
    def calls(self) -> int:
        """Those in flight."""

    def ping(self) -> None: ...
    def abort(self, reason: str = "") -> None: ...


class Watch:
    """Applies a Keepalive to one connection until `stop`."""

    __slots__ = ("_answers", "_arrivals", "_awaited", "_connection", "_pings", "_timer", "_times")

    def __init__(self, connection: Watched, times: Keepalive) -> None:
        self._connection = connection
        self._times = times
        self._arrivals = self._answers = self._pings = 0
        self._awaited = False  # a ping is out
        self._timer: asyncio.TimerHandle = connection.loop.call_later(times.time_s, self._look)

    def stop(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        connection, times = self._connection, self._times
        silent = connection.arrivals == self._arrivals
        self._arrivals = connection.arrivals
        if silent and self._awaited:
            connection.abort(f"no answer to a ping within {times.timeout_s:g} s")
            return
        if connection.answers != self._answers:
            self._answers, self._pings = connection.answers, 0
        self._awaited = silent and connection.calls > 0
        if self._awaited:
            self._pings += 1
            connection.ping()
            delay_s = times.timeout_s
        else:
            delay_s = times.time_s if self._pings < _MAX_PINGS else max(times.time_s, _SLOW_S)
        self._timer = connection.loop.call_later(delay_s, self._look)
