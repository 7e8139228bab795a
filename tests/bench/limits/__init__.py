"""Limits over four gateway processes on one Redis, and the shares of tiers in one whose pool gets twice what it takes."""

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from tests.bench.figures import Figure
from tests.bench.limits import counted, shares


def run() -> Iterator[Figure]:
    for part in (counted.measure, shares.measure):
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-bench-")))
            yield from asyncio.run(part(folder, stack))
