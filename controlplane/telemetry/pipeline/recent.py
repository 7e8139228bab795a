"""Remembers which traces were closed lately, in bounded memory: a span that comes later amends, and the store is not asked in vain."""

SLACK_NS = 5 * 10**9
"""How much later than the memory's beginning a trace must have started to be surely new: clocks differ, and traces have a length."""


class Recent:
    """Two generations of trace ids, the older of which is forgotten when the younger is full.

    `now_ns` is the time since which everything closed is remembered, ns since the Unix epoch: at start, the present.
    """

    def __init__(self, now_ns: int, capacity: int = 400_000) -> None:
        self._young, self._old = set[bytes](), set[bytes]()
        self._young_since_ns = self._old_since_ns = now_ns
        self._half = max(1, capacity // 2)

    def add(self, trace_id: bytes, now_ns: int) -> None:
        if len(self._young) >= self._half:
            self._old, self._old_since_ns = self._young, self._young_since_ns
            self._young, self._young_since_ns = set(), now_ns
        self._young.add(trace_id)

    def may_know(self, trace_id: bytes, earliest_ns: int) -> bool:
        """Whether spans of the trace may be in the store already; `earliest_ns` is when the earliest one at hand started."""
        return earliest_ns < self._old_since_ns + SLACK_NS or trace_id in self._young or trace_id in self._old
