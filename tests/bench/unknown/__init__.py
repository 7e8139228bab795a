"""Random histories of a pool, in which facts become unknown, each beside a twin in which they are known (`history.py`)."""

import gc
import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from tests.bench.figures import Figure, say
from tests.bench.unknown import demand, weeks
from tests.bench.unknown.history import KINDS, judged
from tests.bench.unknown.protections import PROTECTIONS, first_found_without

HISTORIES = 10_000
PROCESSES = 2
MAX_SHOWN = 20
"""Faults that are said as they are found."""
MAX_SEARCHED = 3_000
PART = 100
"""Histories between two words of progress."""


def run() -> Iterator[Figure]:
    seed, histories = int(os.environ.get("SEED") or 1), int(os.environ.get("HISTORIES") or HISTORIES)
    begin = int(os.environ.get("FIRST") or 0)
    found = Counter[str]()
    parts = [range(first, min(first + PART, histories)) for first in range(begin, histories, PART)]
    with ProcessPoolExecutor(PROCESSES, initializer=gc.disable) as pool:  # a quarter of the time; `part` collects
        for done, faults in enumerate(pool.map(part, [seed] * len(parts), parts), 1):
            for kind, text in faults:
                found[kind] += 1
                if found.total() <= MAX_SHOWN:
                    say(f"{kind}: {text}")
            if done % 10 == 0:
                say(f"{min(begin + done * PART, histories):,} of {histories:,} histories, {sum(found.values())} faults")
        for kind in KINDS:
            which = f"of {histories:,} histories" if not begin else f"of histories {begin:,} to {histories - 1:,}"
            yield Figure(f"unknown.{kind}", found[kind], "ticks", f"{which}, seed {seed}")
        for name, number in zip(PROTECTIONS, pool.map(needed, PROTECTIONS, [seed] * len(PROTECTIONS)), strict=True):
            say(f"without “{name}” the first to go wrong is history {number}")
            yield Figure(
                f"unknown.needed {name}", int(number is not None), "0 or 1", f"of at most {MAX_SEARCHED:,} histories"
            )
    yield from weeks.run(seed)
    yield from demand.run(seed)


def needed(protection: str, seed: int) -> int | None:
    """The first history that goes wrong without this protection."""
    return first_found_without(protection, seed, MAX_SEARCHED)


def part(seed: int, numbers: range) -> list[tuple[str, str]]:
    """The faults of these histories."""
    faults = [fault for number in numbers for fault in judged(seed, number)]
    gc.collect()
    return faults
