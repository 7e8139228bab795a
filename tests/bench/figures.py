"""A figure: one measured number with a stable name, printed as one JSON object per line."""

import json
import math
import sys
from dataclasses import asdict, dataclass
from statistics import median


@dataclass(frozen=True)
class Figure:
    """`against` names what a ratio is taken to, or what was taken off; empty when there is nothing."""

    name: str
    value: float
    unit: str
    against: str = ""

    def line(self) -> str:
        return json.dumps({**asdict(self), "value": significant(self.value)})


def significant(value: float, digits: int = 4) -> float:
    return float(f"{value:.{digits}g}")


def percentile(values: list[int], share: float) -> int:
    """Nearest-rank percentile; `share` in 0..1. Raises ValueError on no values."""
    if not values:
        raise ValueError("no values to take a percentile of: the load generator completed no request")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)]


def over_rounds(values: list[float]) -> float:
    """What a figure reports of its rounds: the median, so that one disturbed round does not count."""
    return median(values)


def emit(figure: Figure) -> None:
    sys.stdout.write(figure.line() + "\n")
    sys.stdout.flush()


def say(message: str) -> None:
    sys.stderr.write(f"bench: {message}\n")
    sys.stderr.flush()
