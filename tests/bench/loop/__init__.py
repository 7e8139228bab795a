"""How fast the loop closes: from a signal in a gateway's metrics to the patch that the Kubernetes API has accepted, and how long a tick
of 200 models takes; and how soon gateways obey what has changed.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.figures import Figure
from tests.bench.loop.control import django_in


def run() -> Iterator[Figure]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="weir-bench-", ignore_cleanup_errors=True)))
        django_in(folder)
        from tests.bench.loop import patches, ticks, watchers

        yield from watchers.measured()
        yield from ticks.measured()
        yield from patches.measured(folder)
