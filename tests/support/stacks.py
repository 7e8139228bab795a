"""Where the tasks of the session's event loop wait. pytest-timeout prints threads alone, and all of these share one."""

import asyncio
import io


def stacks_of_tasks() -> str:
    """A stack for each task that has not ended; empty where no loop was set."""
    out = io.StringIO()
    try:
        loop = asyncio.get_event_loop_policy().get_event_loop()
    except RuntimeError:
        return ""
    for task in asyncio.all_tasks(loop):
        task.print_stack(file=out)
    return out.getvalue()
