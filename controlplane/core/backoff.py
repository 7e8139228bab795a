"""How long to wait before something that failed is tried again."""

_MAX_DOUBLINGS = 32


def doubled_s(first_s: float, failures: int, max_s: float) -> float:
    """Seconds to wait after so many failures in a row: `first_s` after the first, then twice as long each time, at most `max_s`."""
    return min(max_s, first_s * 2.0 ** min(max(failures - 1, 0), _MAX_DOUBLINGS))


def waits(now_ms: int, until_ms: int, max_s: float) -> bool:
    """Whether a wait of at most `max_s` lasts until `until_ms`. What is later than that is of a clock that was ahead."""
    return 0 < until_ms - now_ms <= max_s * 1_000
