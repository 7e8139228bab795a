"""Weir's metric source and annotations, for what OpenSLO has no field for."""

import math
import re
from collections.abc import Sequence

from controlplane.core.formatting import UNITS_S, relative
from controlplane.slo.core.windows import BurnWindow, Severity

SOURCE = "weir"
"""`metricSource.type` of indicators that Weir measures itself."""

PREFIX = "weir.slo/"
OWNER = PREFIX + "owner"
RUNBOOK = PREFIX + "runbook"
RUNBOOK_TEXT = PREFIX + "runbook-text"
SPLIT_BY = PREFIX + "split-by"
MINIMUM_EVENTS = PREFIX + "minimum-events"
MINIMUM_BAD_EVENTS = PREFIX + "minimum-bad-events"
WINDOWS = PREFIX + "windows"
EXACT = PREFIX + "exact"
"""JSON with the fields of an objective that OpenSLO's own fields cannot hold, such as a period of 90 seconds."""
MEANT = (OWNER, RUNBOOK, RUNBOOK_TEXT, SPLIT_BY, MINIMUM_EVENTS, MINIMUM_BAD_EVENTS, WINDOWS, EXACT)

NONE = "none"
WINDOW = re.compile(r"(page|ticket) (\d{1,7}[smhd])/(\d{1,7}[smhd]) (\S{1,30})")
REMEDY = "write windows as 'page 1h/5m 0.02, ticket 3d/6h 0.1': severity, long/short window, share of the budget"


def windows_text(windows: Sequence[BurnWindow]) -> str:
    """`page 1h/5m 0.02, …`: severity, long and short window, and the share of the whole budget that may be used in the long one."""
    return (
        NONE
        if not windows
        else ", ".join(
            f"{window.severity} {relative(window.long_s, 'dhms')}/{relative(window.short_s, 'dhms')} {window.budget_share!r}"
            for window in windows
        )
    )


def windows_of(text: str) -> tuple[BurnWindow, ...]:
    """The inverse. Raises ValueError."""
    if text.strip() == NONE:
        return ()
    windows = []
    for part in text.split(","):
        match = WINDOW.fullmatch(part.strip())
        if not match:
            raise ValueError(f"{part.strip()!r} is not a window: {REMEDY}")
        severity: Severity = "page" if match[1] == "page" else "ticket"
        try:
            share = float(match[4])
        except ValueError:
            share = math.nan
        if not 0 < share <= 1:
            raise ValueError(f"{match[4]!r} is not a share of the budget: use 0.02 for 2 %")
        windows.append(BurnWindow(severity, _length_s(match[2]), _length_s(match[3]), share))
    return tuple(windows)


def _length_s(text: str) -> int:
    return int(text[:-1]) * UNITS_S[text[-1]]
