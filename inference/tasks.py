"""Runs tasks that last as long as the process."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

_log = structlog.get_logger()
_PAUSE_FIRST_S = 1.0
_PAUSE_MOST_S = 30.0


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
        pause_s = min(_PAUSE_MOST_S, pause_s * 2)
