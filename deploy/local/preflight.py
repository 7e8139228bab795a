"""Before anything is installed: can this machine run Weir? Prints one sentence and ends with status 1 where it cannot.

Runs under whatever `python3` there is, so it uses the standard library alone, and nothing newer than Python 3.6.
"""

import platform
import sys

MINIMUM = (3, 11)


def problem() -> "str | None":
    """What is in the way, as a sentence with the remedy."""
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
    found = problem()
    if found:
        sys.exit(f"weir cannot run: {found}")
