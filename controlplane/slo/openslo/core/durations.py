"""OpenSLO's duration shorthand: a positive whole number and one letter, such as `5m`, `4w`, `1M`."""

import re
from typing import Literal, cast

from controlplane.slo.core.windows import DAY_S, HOUR_S, MINUTE_S

Unit = Literal["m", "h", "d", "w", "M", "Q", "Y"]
SECONDS: dict[Unit, int] = {
    "m": MINUTE_S, "h": HOUR_S, "d": DAY_S, "w": 7 * DAY_S, "M": 30 * DAY_S, "Q": 90 * DAY_S, "Y": 365 * DAY_S,
}  # fmt: skip
"""For rolling windows; months and longer as OpenSLO's go-sdk counts them."""
NAMES: dict[Unit, str] = {
    "m": "minutes", "h": "hours", "d": "days", "w": "weeks", "M": "months", "Q": "quarters", "Y": "years",
}  # fmt: skip
SHORTHAND = re.compile(r"([1-9][0-9]{0,8})([mhdwMQY])")
REMEDY = "write a whole number and one of m, h, d, w, M, Q, Y, such as 30d"


def parts(text: str) -> tuple[int, Unit]:
    """Its number and unit. Raises ValueError."""
    match = SHORTHAND.fullmatch(text)
    if not match:
        raise ValueError(f"is not a duration: {REMEDY}")
    return int(match[1]), cast(Unit, match[2])


def seconds(text: str) -> int:
    """Raises ValueError."""
    number, unit = parts(text)
    return number * SECONDS[unit]
