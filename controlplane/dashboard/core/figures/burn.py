"""The burn-rate chart of an incident as SVG shapes: small, drawn by the server, the same without scripts."""

from collections.abc import Sequence
from typing import Any

from controlplane.core.formatting import PAGE
from controlplane.dashboard.core.zone import clock, clock_minute, minute
from controlplane.slo.core.burn import error_budget

WIDTH, HEIGHT = 1000, 160
MAX_TICKS = 6
SECOND_NS = 10**9
DAY_S = 86_400
ROUND_S = (60, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, DAY_S, 2 * DAY_S, 7 * DAY_S, 28 * DAY_S)


def burn_chart(
    steps: Sequence[Sequence[int]],
    step_s: int,
    target: float,
    marks: Sequence[tuple[int, str]],
    from_ns: int,
    to_ns: int,
) -> dict[str, Any]:
    """`steps`: start (ns), bad and counted requests; those without any leave a gap. `marks`: moments worth a line. `budget_y` is
    where the rate is 1: the whole budget in a period; `top` is the rate at the upper edge; `table` has clock, bad, counted and burn rate.
    """
    budget = error_budget(target)
    rates = {start: bad / total / budget for start, bad, total in steps if total}
    highest = max((*rates.values(), 2.0))
    length = max(to_ns - from_ns, 1)
    at = minute if length > DAY_S * SECOND_NS else clock

    def x(at_ns: int) -> float:
        return round(WIDTH * (at_ns - from_ns) / length, 2)

    bars, table, times = [], [], _round_times(from_ns, to_ns)
    for start, bad, total in steps:
        if not total:
            continue
        rate = rates[start]
        height = HEIGHT * rate / highest
        left, right = max(0.0, x(start)), min(float(WIDTH), x(start + step_s * SECOND_NS))
        said = f"{at(start)} {PAGE.times(rate)}, {bad} of {total} bad"
        bars.append(
            {
                "x": left,
                "y": round(HEIGHT - height, 2),
                "width": round(max(0.5, right - left - 0.6), 2),
                "height": round(height, 2),
                "over": rate > 1,  # the budget
                "text": said,
            }
        )
        table.append((at(start), bad, total, rate))
    return {
        "bars": bars,
        "ticks": [_mark(x(tick), text) for tick, text in zip(times, _texts(times, length), strict=True)],
        "marks": [_mark(x(mark), text) for mark, text in marks if from_ns <= mark <= to_ns],
        "budget_y": round(HEIGHT - HEIGHT / highest, 2),
        "top": f"{highest:.3g}",
        "table": table,
    }


def _texts(times: Sequence[int], length_ns: int) -> list[str]:
    """Where ticks are days apart they have days, else clocks. On a chart of more than a day midnight has its day, and so has what was
    said before.
    """
    by_day = len(times) > 1 and times[1] - times[0] >= DAY_S * SECOND_NS
    texts: list[str] = []
    for at_ns in times:
        clock_said, whole = clock_minute(at_ns), minute(at_ns)[5:]
        is_day = by_day or (clock_said == "00:00" and length_ns > DAY_S * SECOND_NS)
        said = whole[:5] if is_day else clock_said
        texts.append(whole if said in texts else said)
    return texts


def _mark(x: float, text: str) -> dict[str, Any]:
    return {"x": x, "percent": round(x * 100 / WIDTH, 2), "text": text}


def _round_times(from_ns: int, to_ns: int) -> list[int]:
    step = (
        next((length_s for length_s in ROUND_S if (to_ns - from_ns) / SECOND_NS / length_s <= MAX_TICKS), ROUND_S[-1])
        * SECOND_NS
    )
    return list(range(-(-from_ns // step) * step, to_ns, step))
