"""Checks, before anything is installed, whether this machine can run Weir. Prints one sentence and exits with 1 where it cannot.

Any `python3` must be able to run it, so it uses the standard library alone, and nothing newer than Python 3.6.
"""

import platform
import sys

MINIMUM = (3, 11)


def problem() -> "str | None":
    """The reason why it cannot, with the remedy; None where it can."""
    if sys.version_info[:2] < MINIMUM:
        wanted = ".".join(map(str, MINIMUM))
        return f"it needs Python {wanted} or later, and this is {platform.python_version()}: name another with `make PYTHON=python3.12 …`"
    system, machine = platform.system(), platform.machine()
    if (system, machine) != ("Linux", "x86_64"):
        return (
            f"its Redis and Triton are built for Linux on x86-64, and this is {system} on {machine}: "
            "use such a machine, or a container on one"
        )
    if platform.libc_ver()[0] != "glibc":
        return "its Redis and Triton need glibc, and this system has another C library: use Debian, Ubuntu, Fedora or the like"
    return None


if __name__ == "__main__":
    reason = problem()
    if reason:
        sys.exit(f"weir cannot run: {reason}")
