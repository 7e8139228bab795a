"""Numbers as people read them, always with their unit. Pure."""

import math
from datetime import UTC, datetime

THIN = "\u202f"  # narrow no-break space: keeps a number and its unit on one line


def ms(value: float | None) -> str:
    """Milliseconds to three significant figures: `0.42 ms`, `41.3 ms`, `1.93 s`, `2 m 05 s`."""
    if value is None:
        return "–"
    size = abs(value)
    if size >= 99_950:
        minutes, seconds = divmod(round(size / 1000), 60)
        return f"{'-' if value < 0 else ''}{minutes}{THIN}m{THIN}{seconds:02d}{THIN}s"
    if size >= 999.5:
        return f"{_significant(value / 1000)}{THIN}s"
    if size == 0:
        return f"0{THIN}ms"
    if size < 0.9995:
        return f"{_significant(value * 1000)}{THIN}µs"
    return f"{_significant(value)}{THIN}ms"


def ns(value: int | None) -> str:
    return ms(None if value is None else value / 1e6)


def exact_ms(value: int) -> str:
    """Nanoseconds as milliseconds with nothing lost: `1 234.567 890 ms`, so that a column's sum can be checked by eye."""
    whole, rest = divmod(abs(value), 1_000_000)
    sign = "-" if value < 0 else ""
    return f"{sign}{_grouped(whole)}.{rest // 1000:03d}{THIN}{rest % 1000:03d}"


def share(value: float | None) -> str:
    """A fraction as a percentage: `68 %`, `0.4 %`."""
    if value is None:
        return "–"
    percent = value * 100
    if -0.05 < percent < 0:
        percent = 0.0
    if abs(percent) >= 9.95 or percent == 0:
        return f"{percent:.0f}{THIN}%"
    return "<0.1" + THIN + "%" if 0 < percent < 0.05 else f"{percent:.1f}{THIN}%"


def precise(value: float | None) -> str:
    """A fraction close to one, where the digits after the nines matter: `99.93 %`, `98 %`. Never rounded up to 100 %."""
    if value is None:
        return "–"
    digits = 1 if value < 0.99 else 2 if value < 0.999 else 3 if value < 0.9999 else 4
    percent = math.floor(value * 100 * 10**digits + 1e-6) / 10**digits
    return f"{percent:.{digits}f}".rstrip("0").rstrip(".") + f"{THIN}%"


def count(value: int | None) -> str:
    return "–" if value is None else _grouped(value)


def rate(per_s: float | None) -> str:
    """Requests per second, or per minute where that reads better."""
    if per_s is None:
        return "–"
    if per_s == 0:
        return f"0{THIN}/s"
    return f"{_significant(per_s)}{THIN}/s" if per_s >= 0.5 else f"{_significant(per_s * 60)}{THIN}/min"


def size(found: float) -> str:
    """Bytes: `3.2 MB`."""
    for unit, length in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if found >= length:
            return f"{_significant(found / length)}{THIN}{unit}"
    return f"{found:.0f}{THIN}B"


def age(seconds: float) -> str:
    """How long ago, in its largest unit: `3 s`, `12 min`, `5 h`, `2 d`."""
    seconds = max(0.0, seconds)
    for unit, length in (("d", 172_800), ("h", 7_200), ("min", 120)):
        if seconds >= length:
            return f"{seconds / {'d': 86_400, 'h': 3_600, 'min': 60}[unit]:.0f}{THIN}{unit}"
    return f"{seconds:.0f}{THIN}s"


def moment(at_ns: int) -> str:
    """UTC, to the millisecond."""
    return f"{_utc(at_ns):%Y-%m-%d %H:%M:%S}.{at_ns // 1_000_000 % 1000:03d}"


def clock(at_ns: int) -> str:
    return f"{_utc(at_ns):%H:%M:%S}"


def hour(at_s: int) -> str:
    """UTC, to the minute, of seconds since the epoch."""
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M}"


def iso(at_ns: int) -> str:
    return f"{_utc(at_ns):%Y-%m-%dT%H:%M:%S}.{at_ns // 1000 % 1_000_000:06d}Z"


def instant(at_ns: int) -> str:
    """As URLs write it: ISO 8601 in UTC, with milliseconds where there are any."""
    ms = at_ns // 1_000_000 % 1000
    return f"{_utc(at_ns):%Y-%m-%dT%H:%M:%S}{f'.{ms:03d}' if ms else ''}Z"


def figure(value: float, unit: str) -> str:
    """A figure of any unit, with it: `1.93 s`, `42 %`, `1.4 requests`."""
    if unit == "ms":
        return ms(value)
    text = _grouped(round(value)) if value == round(value) and abs(value) < 1e15 else _significant(value)
    return f"{text}{THIN}{unit}" if unit else text


def length(seconds: int) -> str:
    """As relative times write it, in the largest unit that divides it: `30m`, `48h`, `90s`."""
    unit, size_s = next((unit, size) for unit, size in (("h", 3600), ("m", 60), ("s", 1)) if seconds % size == 0)
    return f"{seconds // size_s}{unit}"


def _utc(at_ns: int) -> datetime:
    return datetime.fromtimestamp(at_ns // 1_000_000_000, UTC)


def _grouped(value: int) -> str:
    return f"{value:,}".replace(",", THIN)


def _significant(value: float) -> str:
    size = abs(value)
    return f"{value:.2f}" if size < 9.995 else f"{value:.1f}" if size < 99.95 else f"{value:.0f}"
