"""What each request has: how long its prompt and its answer are to be, and which beginning it shares with others."""

import csv
import gzip
import io
import json
import random
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from inference.loadtest.core.schedule import MAX_REQUESTS

MAX_TOKENS = 2_000_000
_PART = re.compile(r"(\d+)(?:-(\d+))?/(\d+)(?:-(\d+))?(?::(\d+(?:\.\d+)?))?")
_ARRIVAL = ("arrival_s", "timestamp_s")
_INPUT, _OUTPUT = ("input_tokens", "input_length"), ("output_tokens", "output_length")


class Lengths(NamedTuple):
    """Tokens of prompts and answers, drawn evenly between their ends."""

    input_from: int
    input_to: int
    output_from: int
    output_to: int
    weight: float = 1.0


class Planned(NamedTuple):
    """A request, or the first turn of a conversation, before it is sent. `prefix` is which shared beginning it has; -1 is none."""

    due_s: float
    input_tokens: int
    output_tokens: int
    prefix: int = -1


class Arrival(NamedTuple):
    """A row of a trace."""

    at_s: float
    input_tokens: int
    output_tokens: int


def parse_lengths(text: str) -> tuple[Lengths, ...]:
    """Of `200/100` (prompt/answer), `100-400/50-150`, and mixes with weights: `200/100:3,4000/200:1`. Raises ValueError."""
    return tuple(map(_lengths, text.split(",")))


def _lengths(text: str) -> Lengths:
    match = _PART.fullmatch(text.strip())
    if match is None:
        raise ValueError(
            f"{text!r} are no lengths: write PROMPT/ANSWER in tokens, such as 200/100, 100-400/50 or 200/100:3"
        )
    input_from, output_from = int(match[1]), int(match[3])
    lengths = Lengths(
        input_from, int(match[2] or input_from), output_from, int(match[4] or output_from), float(match[5] or 1.0)
    )
    if lengths.input_from > lengths.input_to or lengths.output_from > lengths.output_to:
        raise ValueError(f"{text!r} has a range whose end lies before its beginning")
    if (
        not 0 < lengths.input_from <= lengths.input_to <= MAX_TOKENS
        or not 0 < lengths.output_from <= lengths.output_to <= MAX_TOKENS
    ):
        raise ValueError(f"{text!r} has a length outside 1 to {MAX_TOKENS} tokens")
    if not lengths.weight:
        raise ValueError(f"{text!r} has the weight 0: leave it out")
    return lengths


def planned(times_s: Sequence[float], mix: Sequence[Lengths], prefixes: int, seed: int) -> list[Planned]:
    """Lengths for each time, the same for the same seed. With `prefixes` each request has one of so many shared beginnings."""
    chance = random.Random(f"lengths {seed}")  # noqa: S311  (no secret)
    weights = [lengths.weight for lengths in mix]
    plan = []
    for due_s, lengths in zip(times_s, chance.choices(mix, weights, k=len(times_s)), strict=True):
        inputs = chance.randint(lengths.input_from, lengths.input_to)
        outputs = chance.randint(lengths.output_from, lengths.output_to)
        plan.append(Planned(due_s, inputs, outputs, chance.randrange(prefixes) if prefixes else -1))
    return plan


def planned_of(
    trace: Iterable[Arrival], speed: float, until_s: float | None, prefixes: int, seed: int
) -> list[Planned]:
    """A trace played `speed` times as fast, up to `until_s` of the run. Raises ValueError where nothing is left of it."""
    chance = random.Random(f"lengths {seed}")  # noqa: S311  (no secret)
    rows = sorted(trace, key=lambda row: row.at_s)
    plan = [
        Planned(
            (row.at_s - rows[0].at_s) / speed,
            row.input_tokens,
            row.output_tokens,
            chance.randrange(prefixes) if prefixes else -1,
        )
        for row in rows
        if until_s is None or (row.at_s - rows[0].at_s) / speed <= until_s
    ]
    if not plan:
        raise ValueError("the trace has no requests")
    return plan


def read_trace(name: str, data: bytes) -> list[Arrival]:
    """Of a file of this name: CSV with a header (`arrival_s`, `input_tokens`, `output_tokens`) or JSON lines (also Mooncake's, with
    `timestamp` in ms, `input_length` and `output_length`); `.gz` is unpacked. Raises ValueError with the number of the request.
    """
    arrivals = list[Arrival]()
    try:
        lines = io.StringIO((gzip.decompress(data) if name.endswith(".gz") else data).decode("utf-8", "replace"))
        is_json = name.removesuffix(".gz").endswith(".jsonl")
        rows = map(json.loads, filter(str.strip, lines)) if is_json else csv.DictReader(lines)
        for row in rows:
            arrivals.append(_arrival(row))
            if len(arrivals) > MAX_REQUESTS:
                raise ValueError(f"more than {MAX_REQUESTS} requests")
    except (ValueError, TypeError, AttributeError, csv.Error, EOFError, OSError) as error:
        raise ValueError(f"{name}, request {len(arrivals) + 1}: {error}") from None
    return arrivals


def _arrival(row: dict[str, object]) -> Arrival:
    at_s = float(str(row["timestamp"])) / 1000 if "timestamp" in row else float(_value(row, _ARRIVAL))
    inputs, outputs = (int(float(_value(row, names))) for names in (_INPUT, _OUTPUT))
    if not (0 <= at_s < 1e12 and 0 <= inputs <= MAX_TOKENS and 0 <= outputs <= MAX_TOKENS):
        raise ValueError("a time or a length is out of range")
    return Arrival(at_s, max(1, inputs), max(1, outputs))


def _value(row: dict[str, object], names: tuple[str, ...]) -> str:
    for name in names:
        if row.get(name) not in (None, ""):
            return str(row[name])
    raise ValueError(f"it has no {names[0]}")
