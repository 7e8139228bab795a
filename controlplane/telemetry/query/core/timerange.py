"""Parses the time ranges of URLs: `now`, `now-15m`, `now-1d-15m`, ISO 8601, seconds since the epoch."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from controlplane.core.formatting import instant, relative
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.query.core.errors import BadQuestionError

SECOND_NS = 1_000_000_000
UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
MIN_NS = SECOND_NS
MAX_NS = 92 * 86_400 * SECOND_NS
FIRST_YEAR, LATEST_YEAR = 1971, 2200  # nanoseconds since the epoch leave 64 bits in 2262
_FIRST_NS = 365 * 86_400 * SECOND_NS

_YEAR = "(19(7[1-9]|[89][0-9])|2[01][0-9]{2}|2200)"
_LEAP_YEAR = "(19(7[26]|8[048]|9[26])|2000|2[01](0[48]|[2468][048]|[13579][26]))"
_DAY_OF_YEAR = "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
_TIME_OF_DAY = r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,9})?)?"
_OFFSET = "(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
ISO = f"({_YEAR}-{_DAY_OF_YEAR}|{_LEAP_YEAR}-02-29)([T ]{_TIME_OF_DAY}{_OFFSET}?)?"
"""The accepted part of ISO 8601: a day that exists, from 1971 to 2200, with or without a time and an offset."""
MOMENT = f"^({_YEAR}-{_DAY_OF_YEAR}|{_LEAP_YEAR}-02-29)T{_TIME_OF_DAY}{_OFFSET}$"
"""A day and a time with its offset."""
EPOCH = r"([0-9]{9}|[0-6][0-9]{9})(\.[0-9]{1,9})?|[0-6][0-9]{12}|[0-6][0-9]{15}|[0-6][0-9]{18}"
"""Seconds, or by the number of digits ms, µs or ns, up to the year 2191."""
_BACK = "(-[0-9]{1,6}[smhdw]){0,4}"
INSTANT = rf"^(now{_BACK}|{EPOCH}|{ISO})$"
"""Matches the texts that `instant_ns` accepts; of those that count back from now, it refuses a time before FIRST_YEAR."""

_RELATIVE = re.compile(f"now{_BACK}")
_STEP_BACK = re.compile("-([0-9]+)([smhdw])")
_EPOCH = re.compile(EPOCH, re.ASCII)
_ISO = re.compile(ISO, re.ASCII)
_WRITTEN_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\b")
REMEDY = "Write now-15m or now-1d-15m (units s, m, h, d, w), 2026-11-20T14:05:00Z, or seconds since the epoch"

STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A range as it was written, and the window that it means now. A `live` range ends now and moves on."""

    from_text: str
    to_text: str
    window: Window

    @property
    def live(self) -> bool:
        return self.to_text == "now"

    @property
    def length_ns(self) -> int:
        return self.window.to_ns - self.window.from_ns


def parse(from_text: str, to_text: str, now_ns: int) -> TimeRange:
    """The range from `from_text` to `to_text`. Raises BadQuestionError, naming the field, the value and what to write instead."""
    from_text, to_text = from_text.strip(), to_text.strip()
    from_ns = instant_ns("from", from_text, now_ns)
    to_ns = instant_ns("to", to_text, now_ns)
    if to_ns - from_ns < MIN_NS:
        raise BadQuestionError(
            "from", from_text, f"is not at least a second before to={to_text}", "Begin earlier, or end later"
        )
    if to_ns - from_ns > MAX_NS:
        raise BadQuestionError("from", from_text, "makes a range of more than 92 days", "Ask for a shorter range")
    return TimeRange(from_text, to_text, Window(from_ns, to_ns))


def instant_ns(field: str, text: str, now_ns: int) -> int:
    """One end of a range, ns since the Unix epoch. An ISO time without a zone is UTC; a bare number is s, ms, µs or ns by its length."""
    if _RELATIVE.fullmatch(text):
        at_ns = now_ns - SECOND_NS * sum(int(back) * UNIT_S[unit] for back, unit in _STEP_BACK.findall(text))
        if at_ns < _FIRST_NS:
            raise BadQuestionError(field, text, f"is before {FIRST_YEAR}", REMEDY)
        return at_ns
    if _EPOCH.fullmatch(text):
        whole, _, fraction = text.partition(".")
        scale = max(0, len(whole) - 10)  # 13 digits are ms, 16 µs, 19 ns
        return int(whole) * int(10 ** (9 - scale)) + int(fraction.ljust(9, "0") if fraction else 0)
    if not _ISO.fullmatch(text):
        reason = (
            "is not a time" if not _WRITTEN_DAY.match(text) else f"is not a day between {FIRST_YEAR} and {LATEST_YEAR}"
        )
        raise BadQuestionError(field, text, reason, REMEDY)
    moment = datetime.fromisoformat(text)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    seconds = int(moment.replace(microsecond=0).timestamp())
    return seconds * SECOND_NS + moment.microsecond * 1000


def fixed(window: Window) -> TimeRange:
    """The range as people read it, which does not move on."""
    return TimeRange(instant(window.from_ns), instant(window.to_ns), window)


def shifted(time_range: TimeRange, back_ns: int) -> TimeRange:
    """The same length of time, `back_ns` earlier. One that is relative to now stays so, where its text can say it."""
    moved = Window(time_range.window.from_ns - back_ns, time_range.window.to_ns - back_ns)
    if back_ns % SECOND_NS == 0:
        back = f"-{relative(back_ns // SECOND_NS, 'dhms')}"
        from_text, to_text = f"{time_range.from_text}{back}", f"{time_range.to_text}{back}"
        if _RELATIVE.fullmatch(from_text) and _RELATIVE.fullmatch(to_text):
            return TimeRange(from_text, to_text, moved)
    return fixed(moved)


def step_ns(window: Window, most: int = 60, least_s: int = 1) -> int:
    """The finest round step of at least `least_s` that cuts the window into at most `most` parts, ns."""
    length_s = (window.to_ns - window.from_ns) / SECOND_NS
    return SECOND_NS * next((step for step in STEPS_S if step >= least_s and length_s / step <= most), STEPS_S[-1])
