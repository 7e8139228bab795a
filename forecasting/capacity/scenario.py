"""A what-if: one change, or several, of the assumptions of a plan; and its text in a URL."""

from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from forecasting.capacity.assumptions import CapacityError, require

MAX_SCENARIOS = 8
MAX_FACTOR = 1000


@dataclass(frozen=True, slots=True)
class Launch:
    """Requests that come from a date on, day and night, beside those forecast, shared by the model's regions as its demand is."""

    model: str
    requests_per_s: float
    start: date  # at 00:00 UTC

    def __post_init__(self) -> None:
        require("launch: requests_per_s", self.requests_per_s, above=True)

    @property
    def start_s(self) -> int:
        return int(datetime(self.start.year, self.start.month, self.start.day, tzinfo=UTC).timestamp())


@dataclass(frozen=True, slots=True)
class Scenario:
    """What differs from the plan as forecast. A scenario without changes is that plan.

    `peak` multiplies the demand of every hour, so also its peak. `inputs` and `outputs` multiply tokens per request. `hit_rate` is in
    percentage points, negative where the cache answers less. `gpu` is the type that every pool runs on. Each of `lost` is
    a region whose demand the others take. `level` is another quantile to plan for.
    """

    peak: float = 1.0
    inputs: float = 1.0
    outputs: float = 1.0
    hit_rate: float = 0.0
    gpu: str = ""
    lost: tuple[str, ...] = ()
    launches: tuple[Launch, ...] = ()
    level: float | None = None

    def __post_init__(self) -> None:
        require("peak", self.peak, 0, MAX_FACTOR)
        require("inputs", self.inputs, 0, MAX_FACTOR, above=True)
        require("outputs", self.outputs, 0, MAX_FACTOR, above=True)
        require("hit_rate", self.hit_rate, -100, 100)
        if self.level is not None:
            require("level", self.level, 0, 1)

    @property
    def name(self) -> str:
        """In words, such as `peak × 2, outputs +30 %`."""
        words = [f"peak × {self.peak:g}"] if self.peak != 1 else []
        words += [
            f"{name} {(factor - 1) * 100:+.3g} %"
            for name, factor in (("inputs", self.inputs), ("outputs", self.outputs))
            if factor != 1
        ]
        words += [f"hit rate {self.hit_rate:+g} points"] if self.hit_rate else []
        words += [f"on {self.gpu}"] if self.gpu else []
        words += [f"{region} lost" for region in self.lost]
        words += [
            f"{launch.model} +{launch.requests_per_s:g} requests/s from {launch.start.isoformat()}"
            for launch in self.launches
        ]
        words += [f"at P{self.level * 100:g}"] if self.level is not None else []
        return ", ".join(words) or "as forecast"


AS_FORECAST = Scenario()


def scenario_text(scenario: Scenario) -> str:
    """The scenario as `parse_scenario` reads it: `peak=2;outputs=1.3;lost=eu`. Empty for one without changes."""
    parts = [
        f"{name}={getattr(scenario, name):g}" for name in ("peak", "inputs", "outputs") if getattr(scenario, name) != 1
    ]
    parts += [f"hit_rate={scenario.hit_rate:g}"] if scenario.hit_rate else []
    parts += [f"gpu={scenario.gpu}"] if scenario.gpu else []
    parts += [f"lost={region}" for region in scenario.lost]
    parts += [
        f"launch={launch.model}:{launch.requests_per_s:g}:{launch.start.isoformat()}" for launch in scenario.launches
    ]
    parts += [f"level={scenario.level:g}"] if scenario.level is not None else []
    return ";".join(parts)


@dataclass(slots=True)
class _Fields:
    """What was read so far, by the names of Scenario's fields."""

    numbers: dict[str, float] = field(default_factory=dict)
    gpu: str = ""
    lost: list[str] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)


_NUMBERS = ("peak", "inputs", "outputs", "hit_rate", "level")


def parse_scenario(text: str) -> Scenario:
    """Reads `name=value` parts with `;` between them: peak, inputs, outputs, hit_rate, gpu, lost, launch, level.

    A launch is `model:requests_per_s:YYYY-MM-DD`. `lost` and `launch` may be repeated. Raises CapacityError with the part that
    cannot be read and what to write instead.
    """
    read = _Fields()
    for part in filter(None, (part.strip() for part in text.split(";"))):
        name, _, value = (word.strip() for word in part.partition("="))
        if not value:
            raise CapacityError(f"scenario has {part!r}: write name=value, such as peak=2")
        match name:
            case "gpu":
                read.gpu = value
            case "lost":
                read.lost.append(value)
            case "launch":
                read.launches.append(_launch(value))
            case _ if name in _NUMBERS:
                read.numbers[name] = _number(name, value)
            case _:
                raise CapacityError(
                    f"scenario has {name!r}: use one of {', '.join((*_NUMBERS, 'gpu', 'lost', 'launch'))}"
                )
    return Scenario(gpu=read.gpu, lost=tuple(read.lost), launches=tuple(read.launches), **read.numbers)


def _number(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise CapacityError(f"{name} is {value!r}: give a number, such as 1.3") from None


def _launch(value: str) -> Launch:
    try:
        model, rate, day = value.rsplit(":", 2)
        start = date.fromisoformat(day)
    except ValueError:
        raise CapacityError(
            f"launch is {value!r}: write model:requests_per_s:YYYY-MM-DD, such as chat-large:50:2026-12-03"
        ) from None
    return Launch(model, _number("launch: requests_per_s", rate), start)
