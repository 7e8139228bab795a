"""Formats numbers, with their units, times, and what the system says of an error."""

import math
import os
from dataclasses import dataclass
from datetime import UTC, datetime

THIN = "\u202f"  # narrow no-break space
MISSING = "–"


@dataclass(frozen=True, slots=True)
class Format:
    """Formats numbers, with `space` before the unit and between groups of digits."""

    space: str

    def ms(self, value: float | None) -> str:
        """Milliseconds to three significant figures: `0.42 ms`, `41.3 ms`, `1.93 s`, `2 m 05 s`."""
        if value is None:
            return MISSING
        size = abs(value)
        if size >= 99_950:
            minutes, seconds = divmod(round(size / 1000), 60)
            return f"{'-' if value < 0 else ''}{minutes}{self.space}m{self.space}{seconds:02d}{self.space}s"
        if size >= 999.5:
            return self._with(_significant(value / 1000), "s")
        if size == 0:
            return self._with("0", "ms")
        if size < 0.9995:
            return self._with(_significant(value * 1000), "µs")
        return self._with(_significant(value), "ms")

    def ns(self, value: int | None) -> str:
        return self.ms(None if value is None else value / 1e6)

    def exact_ms(self, value: int) -> str:
        """Nanoseconds as milliseconds with all digits, `1 234.567 890`, so that a column's sum can be checked."""
        whole, rest = divmod(abs(value), 1_000_000)
        sign = "-" if value < 0 else ""
        return f"{sign}{self.count(whole)}.{rest // 1000:03d}{self.space}{rest % 1000:03d}"

    def threshold_ms(self, value: float) -> str:
        """A configured number of milliseconds, not rounded: `200 µs`, `500 ms`, `1.5 s`."""
        scale, unit = (1e3, "µs") if 0 < value < 1 else (1, "ms") if value < 1000 else (1e-3, "s")
        return self._with(f"{value * scale:.12g}", unit)

    def duration(self, seconds: float) -> str:
        """In the largest unit that has at least two of it, or whole ones: `90 s`, `5 min`, `2.5 h`, `36 h`, `30 days`."""
        seconds = max(0.0, seconds)
        for unit, length in (("days", 86_400), ("h", 3_600), ("min", 60)):
            if seconds >= 2 * length or seconds == length:
                value = seconds / length
                text = f"{value:.0f}" if value >= 9.95 else f"{value:.1f}".removesuffix(".0")
                return self._with(text, "day" if unit == "days" and value == 1 else unit)
        return self._with(f"{seconds:.0f}", "s")

    def share(self, value: float | None) -> str:
        """A fraction as a percentage: `68 %`, `0.4 %`."""
        if value is None:
            return MISSING
        percent = value * 100
        if -0.05 < percent < 0:
            percent = 0.0
        if abs(percent) >= 9.95 or percent == 0:
            return self._with(f"{percent:.0f}", "%")
        return self._with("<0.1" if 0 < percent < 0.05 else f"{percent:.1f}", "%")

    def precise(self, value: float | None) -> str:
        """A fraction close to one, where the digits after the nines matter: `99.93 %`, `98 %`. Never rounded up to 100 %."""
        if value is None:
            return MISSING
        digits = 1 if value < 0.99 else 2 if value < 0.999 else 3 if value < 0.9999 else 4
        percent = math.floor(value * 100 * 10**digits + 1e-6) / 10**digits
        return self._with(f"{percent:.{digits}f}".rstrip("0").rstrip("."), "%")

    def target(self, value: float) -> str:
        """A configured fraction, not rounded: `99.9 %`."""
        return self._with(f"{round(value * 100, 6):.12g}", "%")

    def times(self, value: float | None) -> str:
        """A burn rate: `2.3×`."""
        if value is None:
            return MISSING
        return f"{value:.0f}×" if value >= 99.5 else f"{value:.1f}×" if value >= 9.95 else f"{value:.2g}×"

    def count(self, value: int | None) -> str:
        return MISSING if value is None else f"{value:,}".replace(",", self.space)

    def counted(self, value: int, noun: str) -> str:
        """`1 request`, `1 234 requests`."""
        return f"{self.count(value)} {noun}" if value == 1 else f"{self.count(value)} {noun}s"

    def rate(self, per_s: float | None) -> str:
        """Requests per second, or per minute below one in two seconds."""
        if per_s is None:
            return MISSING
        if per_s == 0:
            return self._with("0", "/s")
        return self._with(_significant(per_s), "/s") if per_s >= 0.5 else self._with(_significant(per_s * 60), "/min")

    def number(self, value: float | None) -> str:
        """Without a unit, to three significant figures or whole: `0.42`, `12.3`, `1 234`."""
        if value is None:
            return MISSING
        whole = abs(value) >= 99.95 or value == round(value)
        return self.count(round(value)) if whole else _significant(value)

    def usd(self, value: float | None) -> str:
        """Dollars, with cents below 100 and two digits below ten cents: `0.42 USD`, `1 234 USD`, `0.00042 USD`."""
        if value is None:
            return MISSING
        if 0 < abs(value) < 0.0995:
            return self._with(f"{value:.{1 - math.floor(math.log10(abs(value)))}f}", "USD")
        return self._with(f"{value:.2f}" if abs(value) < 99.995 else self.count(round(value)), "USD")

    def size(self, length: float) -> str:
        """Bytes: `3.2 MB`."""
        for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
            if length >= factor:
                return self._with(_significant(length / factor), unit)
        return self._with(f"{length:.0f}", "B")

    def figure(self, value: float, unit: str) -> str:
        """A number in any unit: `1.93 s`, `42 %`, `1.4 requests`. A unit of "ms" is formatted as by ms()."""
        if not math.isfinite(value):
            return MISSING if math.isnan(value) else "∞" if value > 0 else "-∞"
        if unit == "ms":
            return self.ms(value)
        if unit == "requests" and value == 1:
            return self.counted(1, "request")
        text = self.count(round(value)) if value == round(value) and abs(value) < 1e15 else _significant(value)
        return self._with(text, unit) if unit else text

    def _with(self, number: str, unit: str) -> str:
        return f"{number}{self.space}{unit}"


PAGE = Format(THIN)
"""For HTML: a number and its unit stay on one line."""

TEXT = Format(" ")
"""For plain text: notices, Markdown, messages, the API."""


def shortened(text: str, longest: int) -> str:
    """At most `longest` characters, with an ellipsis where some are missing."""
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"


def capitalised(clause: str) -> str:
    """A clause as the beginning of a sentence."""
    return f"{clause[:1].upper()}{clause[1:]}"


UNITS_S = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}


def relative(seconds: int, units: str = "hms") -> str:
    """In the largest of `units` that divides it: `30m`, `48h`, `90s`. Raises ValueError where none does."""
    for unit in units:
        if seconds % UNITS_S[unit] == 0:
            return f"{seconds // UNITS_S[unit]}{unit}"
    raise ValueError(f"{seconds} s is not a whole number of any of {units}")


def minute(at_ns: int) -> str:
    """UTC: `2026-11-20 14:05`."""
    return f"{_utc(at_ns):%Y-%m-%d %H:%M}"


def clock_minute(at_ns: int) -> str:
    """UTC: `14:05`."""
    return f"{_utc(at_ns):%H:%M}"


def iso(at_ns: int) -> str:
    """ISO 8601 in UTC, to the microsecond."""
    return f"{_utc(at_ns):%Y-%m-%dT%H:%M:%S}.{at_ns // 1000 % 1_000_000:06d}Z"


def instant(at_ns: int) -> str:
    """ISO 8601 in UTC for URLs, with milliseconds where there are any."""
    ms = at_ns // 1_000_000 % 1000
    return f"{_utc(at_ns):%Y-%m-%dT%H:%M:%S}{f'.{ms:03d}' if ms else ''}Z"


def _utc(at_ns: int) -> datetime:
    return datetime.fromtimestamp(at_ns // 1_000_000_000, UTC)


def _significant(value: float) -> str:
    size = abs(value)
    return f"{value:.2f}" if size < 9.995 else f"{value:.1f}" if size < 99.95 else f"{value:.0f}"


def system_words(error: OSError) -> str:
    """What the system calls it, such as "Connection refused", instead of a client library's words."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error.strerror or error)
