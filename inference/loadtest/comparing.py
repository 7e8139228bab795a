"""`weir bench --compare BEFORE.json AFTER.json`: for a CI job that fails on a regression."""

import argparse
import sys
from pathlib import Path

import msgspec

from inference.loadtest.core import result
from inference.loadtest.core.compare import Comparison, Difference, compare

_EXIT = """\
exit status: 0 nothing is worse; 1 something is worse; 2 a file cannot be read; 3 one of the runs is invalid.
"""


def main(argv: list[str]) -> int:
    """The exit status."""
    line = argparse.ArgumentParser(
        prog="weir bench", description=__doc__, epilog=_EXIT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    line.add_argument(
        "--compare", nargs=2, type=Path, metavar=("BEFORE", "AFTER"), required=True, help="two results as JSON"
    )
    line.add_argument(
        "--tolerance",
        type=float,
        default=0.05,
        metavar="SHARE",
        help="of change in a latency that does not count (default 0.05)",
    )
    line.add_argument("--out", type=Path, metavar="FILE", help="the comparison as JSON")
    given = line.parse_args(argv)
    if not 0 <= given.tolerance < 100:
        line.error(f"--tolerance is {given.tolerance:g}, and must be from 0 to 100")
    try:
        before, after = (_read(path) for path in given.compare)
        compared = compare(before, after, (str(given.compare[0]), str(given.compare[1])), given.tolerance)
        if given.out is not None:
            given.out.write_bytes(msgspec.json.encode(compared) + b"\n")
    except (ValueError, OSError) as error:
        line.error(str(error))
    sys.stdout.write(text(compared))
    if compared.invalid:
        return 3
    return 1 if compared.worse else 0


def _read(path: Path) -> result.Result:
    """Raises ValueError, OSError."""
    try:
        return result.read(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def text(compared: Comparison) -> str:
    """For people."""
    lines = [f"before: {compared.before}", f"after:  {compared.after}"]
    lines += [f"INVALID, {fault}" for fault in compared.invalid]
    lines += [f"settings differ: {name}: {before} → {after}" for name, (before, after) in compared.settings.items()]
    lines += ["", f"{'':20}{'before':>12}{'after':>12}{'change':>10}  interval", *map(_line, compared.differences)]
    return "\n".join(lines) + "\n"


def _line(difference: Difference) -> str:
    if difference.before is None or difference.after is None:
        return f"{difference.name:20}{'unknown':>12}"
    if difference.unit == "share":
        figures = f"{difference.before:>12.2%}{difference.after:>12.2%}{difference.change or 0.0:>+10.2%}"
        interval = f"{difference.low:+.2%} to {difference.high:+.2%}"
    else:
        change = (difference.change or 1.0) - 1
        figures = f"{difference.before:>10.1f}ms{difference.after:>10.1f}ms{change:>+10.1%}"
        interval = (
            "too few requests"
            if difference.low is None or difference.high is None
            else f"{difference.low - 1:+.1%} to {difference.high - 1:+.1%}"
        )
    return f"{difference.name:20}{figures}  {interval}  {difference.verdict}"
