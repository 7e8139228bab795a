"""The receiver's metrics have the CPU and memory of its children. A child that has ended has no figures."""

import os
import subprocess
import sys

from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import generate_latest

from controlplane.telemetry.process.usage import Usage, usage


def test_a_running_process_has_time_and_memory() -> None:
    found = usage(os.getpid())
    assert found is not None
    assert found[0] > 0 and found[1] > 2**20


def test_one_that_has_gone_has_none() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    registry = CollectorRegistry()
    registry.register(Usage(lambda: [("store", os.getpid()), ("pipeline-0", gone.pid), ("pipeline-1", None)]))
    page = generate_latest(registry).decode()
    assert 'weir_child_resident_bytes{child="store"}' in page
    assert 'child="pipeline' not in page
