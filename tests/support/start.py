"""Starts commands for tests, and ends them again."""

from collections.abc import Callable, Iterator
from pathlib import Path

from deploy.local.process import Command, Managed

Start = Callable[[Command], Managed]


def starter(folder: Path) -> Iterator[Start]:
    """Gives a function that starts a command and waits until it is ready. All of them end afterwards. Logs go to `folder`."""
    running: list[Managed] = []

    def start(command: Command) -> Managed:
        process = Managed(command, folder / f"{command.name}-{len(running)}.log")
        running.append(process)
        return process.start().wait_ready()

    yield start
    for process in running:
        process.terminate()
    for process in reversed(running):
        process.stop()
