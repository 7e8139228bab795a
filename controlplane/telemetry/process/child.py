"""`python -m controlplane.telemetry.process.child PARENT_PID MODULE ARGUMENTS…`: runs a module as a child that dies with its parent.

The next telemetry process must be able to use the spool and the store's folder at once, however the parent died. Therefore the child
gets SIGKILL; it does not need an orderly end. It ignores the terminal's Ctrl-C, which the parent handles.
"""

import gc

gc.disable()  # until the module has imported what it needs

import ctypes
import os
import runpy
import signal
import sys

from controlplane.config import Config
from inference.contract import logs

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """On Linux, request SIGKILL for when the thread that started this process ends. On other systems the pipe from the parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the line above
        sys.exit(1)


def main() -> None:
    parent, module, *arguments = sys.argv[1:]
    die_with_parent(int(parent))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    config = Config.load()
    logs.configure(logs.stdlib_logging(config.log_format, config.log_level))  # to stderr: stdout is for the parent
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
