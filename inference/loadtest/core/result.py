"""What a run has measured, as the document that is kept of it: figures with their units, and every request."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from inference.loadtest.core.objective import Kept
from inference.loadtest.core.samples import (
    CUT_SHORT,
    MEASURES,
    SEND_LAG,
    Figures,
    Sample,
    failures,
    figures_ms,
    of_tokens,
    values,
)
from inference.loadtest.core.search import Highest
from inference.loadtest.core.unhappy import Report
from inference.loadtest.core.verdict import faults_of_client

COLUMNS = tuple(field for field in Sample.__struct_fields__ if field != "said")


class Outcome(msgspec.Struct):
    """What a load came to. `beats_s` is how late the client's loop was, `cpu` the part of a core that it used in its busiest seconds,
    `took_s` the time from the start to the last answer.
    """

    samples: list[Sample]
    gaps_s: Sequence[float]
    beats_s: Sequence[float]
    cpu: float
    took_s: float
    planned: int
    cut_short: bool

    @property
    def client_faults(self) -> list[str]:
        return faults_of_client(self.samples, self.beats_s, self.cpu)


class Result(msgspec.Struct, kw_only=True):
    """`faults` say why a run is not valid. Latencies from `due` have what a request waited for in the client, too."""

    format: Literal["weir-bench/1"] = "weir-bench/1"
    url: str
    model: str
    settings: dict[str, Any]
    machine: dict[str, Any]
    began: str
    valid: bool
    faults: list[str]
    cut_short: bool
    took_s: float
    requests: dict[str, int]
    failures: dict[str, int]
    said: dict[str, str]
    per_second: dict[str, float | None]
    latency_ms: dict[str, Figures | None]
    client_ms: dict[str, Figures | None]
    client_cpu: float
    tokens: dict[str, Any]
    objectives: list[Kept] = []
    search: Highest | None = None
    unhappy: Report | None = None
    samples: dict[str, list[Any]] = {}


def result_of(
    outcome: Outcome, *, url: str, model: str, settings: Mapping[str, Any], machine: Mapping[str, Any], began: str
) -> Result:
    """The document of one load."""
    samples = sorted(outcome.samples, key=lambda sample: (sample.number, sample.turn))
    good = [sample for sample in samples if sample.good]
    cut = sum(sample.failure == CUT_SHORT for sample in samples)
    sent = [sample.sent_s for sample in samples if sample.sent_s is not None]
    sending_s, took_s = max((sample.due_s for sample in samples), default=0.0), outcome.took_s
    outputs = of_tokens([sample.output_tokens for sample in good])
    inputs = of_tokens([sample.input_tokens for sample in good])
    counted = [sample for sample in good if sample.output_tokens >= 0 and sample.chunks]
    chunks = sum(sample.chunks for sample in counted)
    faults = outcome.client_faults
    lags = [lag for sample in samples if (lag := SEND_LAG(sample)) is not None]
    return Result(
        url=url,
        model=model,
        settings=dict(settings),
        machine=dict(machine),
        began=began,
        valid=not faults,
        faults=faults,
        cut_short=outcome.cut_short,
        took_s=round(took_s, 3),
        requests={
            "planned": outcome.planned,
            "sent": len(sent),
            "good": len(good),
            "failed": len(samples) - len(good) - cut,
            "cut_short": cut,
        },
        failures=failures(samples),
        said={sample.failure: sample.said for sample in reversed(samples) if sample.said},
        per_second={
            "requests_due": _rate(len(samples), sending_s),
            "requests_good": _rate(len(good), took_s),
            "input_tokens": _rate(inputs["sum"], took_s) if inputs["known"] == len(good) else None,
            "output_tokens": _rate(outputs["sum"], took_s) if outputs["known"] == len(good) else None,
        },
        latency_ms={name: figures_ms(values(good, measure)) for name, measure in MEASURES.items()}
        | {
            "chunk_gap": figures_ms(outcome.gaps_s),
            "longest_chunk_gap": figures_ms([s.longest_gap_s for s in good if s.chunks > 1]),
        },
        client_ms={"send_lag": figures_ms(lags), "loop_lag": figures_ms(outcome.beats_s)},
        client_cpu=round(outcome.cpu, 3),
        tokens={
            "input": inputs,
            "cached_input": of_tokens([sample.cached_tokens for sample in good]),
            "output": outputs,
            "wanted_output": of_tokens([sample.wanted_tokens for sample in good]),
            "output_per_chunk": round(sum(s.output_tokens for s in counted) / chunks, 3) if chunks else None,
        },
        samples={name: [_short(getattr(sample, name)) for sample in samples] for name in COLUMNS},
    )


def samples_of(result: Result) -> list[Sample]:
    """The requests again. Raises ValueError where the document's columns do not fit each other."""
    try:
        rows = zip(*(result.samples[name] for name in COLUMNS), strict=True)
        return [msgspec.convert(dict(zip(COLUMNS, row, strict=True)), Sample) for row in rows]
    except (KeyError, ValueError, msgspec.ValidationError) as error:
        raise ValueError(f"its requests cannot be read: {error}") from None


def read(data: bytes) -> Result:
    """Raises ValueError with what is wrong."""
    try:
        return msgspec.json.decode(data, type=Result)
    except msgspec.DecodeError as error:
        raise ValueError(f"it is no result of weir bench as JSON: {error}") from None


def _rate(count: float | None, seconds: float) -> float | None:
    return round(count / seconds, 3) if count is not None and seconds > 0 else None


def _short(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value
