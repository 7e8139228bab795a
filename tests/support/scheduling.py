"""Deals the tests out to pytest-xdist's workers: tests that share a running system go to one worker, the longest first."""

from typing import Any

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

SHARED_SYSTEMS = (
    "tests/deploy/test_outage.py",
    "tests/browser/test_drill.py",
    "tests/browser/",
    "tests/inference/wires/",
    "tests/inference/backends/",
    "tests/inference/",
    "tests/controlplane/api/test_document_is_held.py",
    "tests/controlplane/telemetry/test_isolation.py",
    "tests/controlplane/telemetry/test_process.py",
    "tests/controlplane/telemetry/test_outage.py",
    "tests/controlplane/telemetry/test_dealt.py",
    "tests/controlplane/telemetry/test_kill.py",
    "tests/controlplane/telemetry/ingest/",
    "tests/deploy/test_run.py",
    "tests/controlplane/test_on_postgresql.py",
    "tests/controlplane/telemetry/test_",
)
"""Folders and files by their start, the longest running first. Any other file is a system of its own and comes after them."""

KUBERNETES = (
    "tests/deploy/kubernetes/",
    "tests/controlplane/fleet/clusters/",
    "tests/controlplane/policy/test_on_kubernetes.py",
    "tests/controlplane/policy/test_tiers_on_kubernetes.py",
)
"""One system too, which comes first: its control plane is started once."""


def system_of(nodeid: str) -> str:
    """The shared system of a test: a folder or file of SHARED_SYSTEMS, Kubernetes, or the test's own file."""
    path = nodeid.partition("::")[0]
    if path.startswith(KUBERNETES):
        return "Kubernetes"
    folders = (start for start in SHARED_SYSTEMS if start.endswith("/") and path.startswith(start))
    return path if path in SHARED_SYSTEMS else next(folders, path)


def rank_of(nodeid: str) -> int:
    """The place of a test's system among Kubernetes and SHARED_SYSTEMS; of any other, behind them."""
    if nodeid.startswith(KUBERNETES):
        return -1
    ranks = (rank for rank, start in enumerate(SHARED_SYSTEMS) if nodeid.startswith(start))
    return next(ranks, len(SHARED_SYSTEMS))


class BySystem(LoadScopeScheduling):
    """As `--dist loadscope`, with systems as scopes, in the order in which they were collected."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return system_of(nodeid)
