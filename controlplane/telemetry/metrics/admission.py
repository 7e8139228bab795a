"""Limits of a series and of a sample's time, and of the number of active series."""

import time

from .core.series import Labels

MAX_LABELS, MAX_NAME_BYTES, MAX_VALUE_BYTES = 64, 512, 4096
AHEAD_NS = 10 * 60 * 10**9
"""How far a sender's clock may be ahead."""
RENEW_S = 3600.0
"""How long a generation of active series lasts."""


def series_fault(metric: str, labels: Labels) -> str:
    """Why this series is refused, with the name of the field. Empty for a valid series."""
    if not metric or len(metric) > MAX_NAME_BYTES:
        return f"the metric's name is empty or longer than {MAX_NAME_BYTES}"
    if len(labels) > MAX_LABELS:
        return f"the series has more than {MAX_LABELS} labels"
    before = None
    for name, value in labels:
        if not name or len(name) > MAX_NAME_BYTES:
            return f"a label's name is empty or longer than {MAX_NAME_BYTES}"
        if name == before:
            return "a label is given twice"
        if len(value) > MAX_VALUE_BYTES:
            return f"a label's value is longer than {MAX_VALUE_BYTES}"
        before = name
    return ""


def time_fault(time_ns: int, now_ns: int, retention_ns: int) -> str:
    """Why a sample of this time is refused. Empty for a valid time. Samples may come in any order."""
    if time_ns <= 0:
        return "the sample has no time"
    if time_ns > now_ns + AHEAD_NS:
        return "the sample's time is more than 10 minutes ahead"
    if time_ns < now_ns - retention_ns:
        return "the sample is older than what is kept (WEIR_RETENTION_DAYS)"
    return ""


class Admission:
    """Knows the active series and limits their number, in two generations of ids. A series that was in neither is dropped.

    A series is defined again in each generation (`defined` is then false), so that its labels are kept as long as its samples.
    """

    def __init__(self, max_series: int) -> None:
        self.max_series = max_series
        self._young, self._old = set[int](), set[int]()
        self._since_s = time.monotonic()

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def defined(self, series: int) -> bool:
        return series in self._young

    def admits(self, series: int, pending: int) -> bool:
        """Whether the series may be accepted, beside `pending` others that are new."""
        return series in self._young or series in self._old or len(self) + pending < self.max_series

    def learn(self, series: list[int]) -> None:
        """Note that the definitions of these series are durable."""
        if (now_s := time.monotonic()) - self._since_s >= RENEW_S:
            self._old, self._young, self._since_s = self._young, set(), now_s
        self._young.update(series)
        self._old.difference_update(series)
