"""A batch's lines: what they cost and what becomes of them when lanes are killed, and what they do to other requests."""

from collections.abc import Iterator

from tests.bench.figures import Figure
from tests.bench.lane import kills, spare


def run() -> Iterator[Figure]:
    yield from spare.run()
    yield from kills.run()
