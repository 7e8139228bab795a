"""Before anything is installed: can this machine run Weir? Prints one sentence and ends with status 1 where it cannot.

Runs under whatever `python3` there is, so it is written for old ones and uses the standard library alone.
"""

import platform
import sys

MINIMUM = (3, 11)


def problem():  # type: ignore[no-untyped-def]
    """The sentence, or None."""
    if sys.version_info[:2] < MINIMUM:
        return (
            "weir needs Python %d.%d or later, and this is %s: name another with `make PYTHON=python3.12 …`"
            % (MINIMUM + (platform.python_version(),))  # noqa: RUF005
        )
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return (
            "weir's own Redis and Triton are built for Linux on x86-64, and this is %s on %s: "
            "use such a machine, or a container on one" % (platform.system(), platform.machine())
        )
    if platform.libc_ver()[0] != "glibc":
        return "weir's own Redis and Triton need glibc, and this system has another C library: use Debian, Ubuntu, Fedora or the like"
    return None


if __name__ == "__main__":
    found = problem()  # type: ignore[no-untyped-call]
    if found:
        sys.exit(found)
