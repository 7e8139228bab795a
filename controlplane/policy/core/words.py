"""Counts and times in the reasons of decisions."""


def replicas(count: int) -> str:
    return f"{count} replica" if count == 1 else f"{count} replicas"


def seconds(time_s: float) -> str:
    """Such as `45 s`, `15 min` or `2.5 h`."""
    if time_s < 120:
        return f"{time_s:.0f} s"
    if time_s < 7_200:
        return f"{time_s / 60:.0f} min"
    return f"{time_s / 3_600:.3g} h"
