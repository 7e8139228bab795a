"""`python -I -S tether.py PARENT_PID COMMAND…`: executes COMMAND, and has the kernel send it SIGTERM when the parent dies.

This is a program of its own because the alternative (`preexec_fn`) runs Python in a fork of a process with threads. It needs Linux,
as Weir's embedded parts do.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it died before the line above
        sys.exit(1)
    os.execvp(command[0], command)  # noqa: S606  (no shell wanted)


if __name__ == "__main__":
    main()
