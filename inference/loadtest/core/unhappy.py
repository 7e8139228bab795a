"""What becomes of badly behaved clients, and of those beside them: pure judgements."""

from collections.abc import Sequence
from typing import Any

import msgspec

from inference.loadtest.core.samples import CUT_SHORT, MEASURES, Sample, failures, rank

SLOWER, PATIENT = 3.0, 0.25
"""A good request is harmed if it waits longer than so many times the calm p95, and such a part of the clients' patience."""
BUSY = frozenset((429, 503, 529))


class Case(msgspec.Struct, frozen=True):
    """What a client did and what came of it. `faults` is empty where the server did as expected, and nobody was harmed."""

    name: str
    did: str
    expected: str
    got: str
    faults: tuple[str, ...]
    beside: int


class Calm(msgspec.Struct, frozen=True):
    """Good requests with nobody beside them. `busy` is how many other requests the server said it had; None: it does not say.
    Beside others they may wait for `limit_s`.
    """

    requests: int
    p95_s: float
    busy: float | None
    limit_s: float


class Report(msgspec.Struct, frozen=True):
    """`leaks_known`: the server says how many requests it has, so a leak would have been seen."""

    calm: Calm
    leaks_known: bool
    cases: list[Case]

    @property
    def faults(self) -> int:
        return sum(bool(case.faults) for case in self.cases)


def first_or_end_s(sample: Sample) -> float:
    """From due to the first token, or to the end of an answer that is not streamed."""
    return MEASURES["ttft_from_due"](sample) or MEASURES["e2e_from_due"](sample) or 0.0


def calm_of(samples: Sequence[Sample], busy: float | None, patience_s: float) -> Calm:
    """Of good requests alone, at least one."""
    times = sorted(first_or_end_s(sample) for sample in samples if sample.good)
    p95_s = times[rank(len(times), 0.95)]
    return Calm(len(samples), p95_s, busy, SLOWER * p95_s + PATIENT * patience_s)


def harm(calm: Calm, beside: Sequence[Sample], now_s: float) -> list[str]:
    """What good requests had to bear, each a sentence."""
    said = []
    failed = failures(sample for sample in beside if sample.failure != CUT_SHORT)
    if failed:
        kinds = ", ".join(f"{count} {kind}" for kind, count in failed.items())
        said.append(f"{sum(failed.values())} of {len(beside)} good requests beside it failed: {kinds}")
    late = [waited for sample in beside if not sample.failure and (waited := _waited_s(sample, now_s)) > calm.limit_s]
    if late:
        said.append(
            f"{len(late)} of {len(beside)} good requests beside it waited up to {max(late):.1f} s, and {calm.p95_s:.2f} s when calm"
        )
    return said


def _waited_s(sample: Sample, now_s: float) -> float:
    """So far, for its first token, and between two."""
    begun_s = sample.first_s if sample.first_s is not None else sample.ended_s
    silent_s = 0.0 if sample.ended_s is not None else now_s - (sample.last_s or sample.due_s)
    return max((begun_s if begun_s is not None else now_s) - sample.due_s, sample.longest_gap_s, silent_s)


def leak(before: float | None, least: float | None, patience_s: float) -> list[str]:
    """How many requests beside the good ones the server said it had before the clients came, and at least since they left."""
    if before is None or least is None or least <= before:
        return []
    return [
        f"a leak: {patience_s:g} s after all have left the server says it has {least:g} requests beside the good ones, {before:g} before"
    ]


def is_error(body: bytes) -> bool:
    """Whether it is an error as clients of OpenAI's API read them: a JSON object that says something."""
    try:
        document: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return False
    return isinstance(document, dict) and any(document.get(name) for name in ("error", "message", "detail"))
