"""Runs tasks that last as long as the process, and bounds the time of a part of one."""

import asyncio
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self

import structlog

_log = structlog.get_logger()
_PAUSE_FIRST_S = 1.0
_MAX_PAUSE_S = 30.0


def keep(name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
    """Run `work` until it returns or the task is cancelled. If it raises, which is a defect, log that and start it again
    after 1 s, doubling to 30 s.
    """
    return asyncio.get_running_loop().create_task(_keep(name, work), name=name)


async def _keep(name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    pause_s = _PAUSE_FIRST_S
    while True:
        try:
            await work()
        except Exception:  # noqa: BLE001  (whatever it is, the work has to go on)
            _log.exception("task.failed", task=name, again_in_s=pause_s)
        else:
            return
        await asyncio.sleep(pause_s)
        pause_s = min(_MAX_PAUSE_S, pause_s * 2)


class Deadline:
    """As `asyncio.timeout_at`, for a third of what that costs: raises TimeoutError where `at_s`, on the loop's clock, comes before the
    end of the block.
    """

    __slots__ = ("_cancels", "_is_over", "_loop", "_task", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, at_s: float) -> None:
        task = asyncio.current_task(loop)
        assert task is not None
        self._loop, self._task, self._cancels, self._is_over = loop, task, task.cancelling(), False
        self._timer: asyncio.TimerHandle | None = loop.call_at(at_s, self._end)

    def move(self, at_s: float | None) -> None:
        """None stops the clock."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if at_s is None else self._loop.call_at(at_s, self._end)

    def _end(self) -> None:
        self._is_over = True
        self._task.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.move(None)
        if self._is_over and self._task.uncancel() <= self._cancels and kind is asyncio.CancelledError:
            raise TimeoutError from error
