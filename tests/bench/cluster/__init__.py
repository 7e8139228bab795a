"""How Weir recovers from faults of a cluster: `make bench ONLY=cluster`."""

from tests.bench.cluster.rehearse import run

__all__ = ["run"]
