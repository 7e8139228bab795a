"""The loop on one machine, with real processes: a burst against `make run`, and a thousand scale-downs with requests in flight."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.bench.figures import Figure
from tests.bench.local import bursts, scale_downs


def run() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="weir-bench-local-") as folder:
        yield from bursts.measure(Path(folder))
    with tempfile.TemporaryDirectory(prefix="weir-bench-downs-") as folder:
        yield from asyncio.run(scale_downs.measure(Path(folder)))
