"""Numbers in the text of pages, Markdown and notices, where a plain space stands before the unit. Pure."""

from datetime import UTC, datetime


def ms(value: float) -> str:
    if value >= 10_000:
        return f"{value / 1000:.3g} s"
    return f"{value / 1000:.2f} s" if value >= 1000 else f"{value:.3g} ms"


def share(value: float) -> str:
    percent = value * 100
    return f"{percent:.0f} %" if abs(percent) >= 9.95 or percent == 0 else f"{percent:.1f} %"


def duration(seconds: float) -> str:
    """In its largest unit: `40 s`, `5 min`, `2 h`, `3 d`; above all an hour is `1 h`."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.2g} {unit}" if seconds / size < 9.5 else f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def clock(at_ns: int) -> str:
    return f"{datetime.fromtimestamp(at_ns // 10**9, UTC):%H:%M}"


def moment(at_ns: int) -> str:
    return f"{datetime.fromtimestamp(at_ns // 10**9, UTC):%Y-%m-%d %H:%M} UTC"
