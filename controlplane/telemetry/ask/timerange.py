"""The time range grammar of every URL: `now`, `now-15m`, ISO 8601, seconds since the epoch. Pure."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from controlplane.telemetry.ask.errors import BadQuestion
from controlplane.telemetry.store.types import Window

SECOND_NS = 1_000_000_000
UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
SHORTEST_NS = SECOND_NS
LONGEST_NS = 92 * 86_400 * SECOND_NS
LATEST_YEAR = 2200  # nanoseconds since the epoch leave 64 bits in 2262

_RELATIVE = re.compile(r"now(?:-([0-9]{1,6})([smhdw]))?")
_EPOCH = re.compile(r"[0-9]{9,10}(?:\.[0-9]{1,9})?|[0-9]{13}|[0-9]{16}|[0-9]{19}")
_REMEDY = "Write now-15m (units s, m, h, d, w), 2026-11-20T14:05:00Z, or seconds since the epoch"

STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A range as it was written, and the window that it means now. `live` ranges end at the present and move with it."""

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
    """The range from `from_text` to `to_text`. Raises BadQuestion, naming the field, the value and what to write instead."""
    from_text, to_text = from_text.strip(), to_text.strip()
    from_ns = instant_ns("from", from_text, now_ns)
    to_ns = instant_ns("to", to_text, now_ns)
    if to_ns - from_ns < SHORTEST_NS:
        raise BadQuestion(
            "from", from_text, f"is not at least a second before to={to_text}", "Begin earlier, or end later"
        )
    if to_ns - from_ns > LONGEST_NS:
        raise BadQuestion("from", from_text, "makes a range of more than 92 days", "Ask for a shorter range")
    return TimeRange(from_text, to_text, Window(from_ns, to_ns))


def instant_ns(field: str, text: str, now_ns: int) -> int:
    """One end of a range, ns since the Unix epoch. An ISO time without a zone is UTC; a bare number is s, ms, µs or ns by its length."""
    if match := _RELATIVE.fullmatch(text):
        back, unit = match.groups()
        return now_ns - (int(back) * UNIT_S[unit] * SECOND_NS if back else 0)
    if _EPOCH.fullmatch(text):
        whole, _, fraction = text.partition(".")
        scale = max(0, len(whole) - 10)  # 13 digits are ms, 16 µs, 19 ns
        return int(whole) * int(10 ** (9 - scale)) + int(fraction.ljust(9, "0") if fraction else 0)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadQuestion(field, text, "is not a time", _REMEDY) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if not 1971 <= moment.year <= LATEST_YEAR:
        raise BadQuestion(field, text, f"is not between 1971 and {LATEST_YEAR}", _REMEDY)
    seconds = int(moment.replace(microsecond=0).timestamp())
    return seconds * SECOND_NS + moment.microsecond * 1000


def step_ns(window: Window, most: int = 60) -> int:
    """The finest round step that cuts the window into at most `most` pieces, ns."""
    length_s = (window.to_ns - window.from_ns) / SECOND_NS
    return SECOND_NS * next((step for step in STEPS_S if length_s / step <= most), STEPS_S[-1])
