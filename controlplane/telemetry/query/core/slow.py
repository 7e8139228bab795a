"""Which requests of a question are to be explained, read from URL parameters and written back to them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from controlplane.telemetry.core.query_types import Region, Window
from controlplane.telemetry.query.core.errors import BadQuestionError
from controlplane.telemetry.query.core.parameters import Parameters, choice, single
from controlplane.telemetry.query.core.question import QUANTILES, Quantile
from controlplane.telemetry.query.core.timerange import instant_ns

DEFAULT_ABOVE: Quantile = "p95"
MAX_MS = 1e9
MS_NS = 1_000_000
REGION = ("slower_than_ms", "e2e_from_ms", "e2e_to_ms", "region_from", "region_to")


@dataclass(frozen=True, slots=True)
class Slow:
    """The requests of `region`, or without one those above the quantile `above` of the question's."""

    above: Quantile = DEFAULT_ABOVE
    region: Region | None = None
    written: tuple[tuple[str, str], ...] = ()

    def pairs(self) -> list[tuple[str, str]]:
        """The URL parameters of the region, as they were written."""
        return list(self.written)


def parse_slow(parameters: Parameters, now_ns: int, default: Quantile = DEFAULT_ABOVE) -> Slow:
    """`above`, or a region: `slower_than_ms`, or any of E2E from and to and entry from and to. Raises BadQuestionError."""
    given = {name: text for name in REGION if (text := single(parameters, name, ""))}
    above = cast(Quantile, choice(parameters, "above", QUANTILES, default))
    if not given:
        return Slow(above)
    if single(parameters, "above", ""):
        raise BadQuestionError("above", above, f"says another thing than {next(iter(given))}", "Keep one of them")
    if "slower_than_ms" in given and len(given) > 1:
        raise BadQuestionError(
            "slower_than_ms", given["slower_than_ms"], "cannot be joined with a region", "Write e2e_from_ms instead"
        )
    low = "slower_than_ms" if "slower_than_ms" in given else "e2e_from_ms"
    region = Region(ms_as_ns(low, given.get(low, "0")), _high(given, low), _window(given, now_ns))
    return Slow(above, region, tuple(given.items()))


def _high(given: dict[str, str], low: str) -> int | None:
    if "e2e_to_ms" not in given:
        return None
    high = ms_as_ns("e2e_to_ms", given["e2e_to_ms"])
    if high <= ms_as_ns(low, given.get(low, "0")):
        raise BadQuestionError(
            "e2e_to_ms", given["e2e_to_ms"], "is not above e2e_from_ms", "Give more, or leave it out"
        )
    return high


def _window(given: dict[str, str], now_ns: int) -> Window | None:
    ends: Sequence[str] = ("region_from", "region_to")
    texts = [given.get(name, "") for name in ends]
    if not any(texts):
        return None
    if not all(texts):
        missing = ends[texts.index("")]
        raise BadQuestionError(missing, "", "is missing beside the other end of the region", "Give both or neither")
    from_ns, to_ns = (instant_ns(name, text, now_ns) for name, text in zip(ends, texts, strict=True))
    if to_ns <= from_ns:
        raise BadQuestionError("region_to", texts[1], f"is not after region_from={texts[0]}", "End later")
    return Window(from_ns, to_ns)


def ms_as_ns(field: str, text: str) -> int:
    """A parameter that is a number of milliseconds, in ns. Raises BadQuestionError."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= MAX_MS:  # NaN fails this too
        raise BadQuestionError(
            field, text, f"is not a number of milliseconds from 0 to {MAX_MS:.0f}", "Give one as 2000"
        )
    return round(value * MS_NS)
