"""`make bench ONLY=routing`."""

from tests.bench.routing.compare import run

__all__ = ["run"]
