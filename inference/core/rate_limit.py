"""Limits per minute, as leaky buckets (the generic cell rate algorithm). A bucket is one number."""


class Bucket:
    """At most `limit` units a minute, all of which may come at once. Times are seconds on any monotonic clock."""

    __slots__ = ("_empty_at_s", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._empty_at_s = 0.0  # when everything taken will have leaked out

    def wait_s(self, now_s: float) -> float:
        """How long until one unit is free; 0 when one is."""
        return max(0.0, self._empty_at_s + 60.0 / self.limit - 60.0 - now_s)

    def take(self, units: int, now_s: float) -> None:
        """Take `units`, even if that overdraws: the cost of a request is sometimes known only afterwards."""
        self._empty_at_s = max(self._empty_at_s, now_s) + units * 60.0 / self.limit

    def remaining(self, now_s: float) -> int:
        return max(0, min(self.limit, int(self.limit - self.reset_s(now_s) * self.limit / 60.0 + 1e-6)))

    def reset_s(self, now_s: float) -> float:
        """How long until the bucket is empty."""
        return max(0.0, self._empty_at_s - now_s)


def duration(seconds: float) -> bytes:
    """A duration as OpenAI writes it: `12ms`, `1.5s`, `1m30s`."""
    if seconds < 1:
        return b"%dms" % round(seconds * 1000)
    if seconds < 60:
        return f"{seconds:.3f}".rstrip("0").rstrip(".").encode() + b"s"
    return b"%dm%ds" % divmod(round(seconds), 60)
