"""`python -m controlplane.telemetry.process.child PARENT_PID MODULE ARGUMENTS…`: run a module as a child that dies with its parent.

However the parent dies: a second writer must find the spool and the store's folder free. SIGKILL and not SIGTERM for that reason, and
because nothing needs an orderly end. The terminal's Ctrl-C is the parent's affair.
"""

import ctypes
import os
import runpy
import signal
import sys

from controlplane.config import load
from controlplane.observability import logs

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """Linux: ask for SIGKILL when the thread that started us ends. Elsewhere the pipe from the parent ends, later."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the line above
        sys.exit(1)


def main() -> None:
    parent, module, *arguments = sys.argv[1:]
    die_with_parent(int(parent))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    config = load()
    logs.configure(logs.stdlib_logging(config.log_format, config.log_level))  # to stderr: stdout is for the parent
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
