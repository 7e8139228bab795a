"""Deals the tests out to pytest-xdist's workers: tests that share a running system go to one worker, the longest first. A fourth worker
has what starts nothing, which it runs while the others wait for their processes."""

import os
import re
from functools import cache
from typing import Any

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling
from xdist.workermanage import WorkerController

from deploy.local.process import ROOT
from tests.support.start import STARTING_FIXTURES, only_starts_processes

SHARED_SYSTEMS = (
    "tests/browser/launched/test_run.py",
    "tests/browser/launched/test_drill.py",
    "tests/deploy/test_outage.py",
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
    "tests/controlplane/test_on_postgresql.py",
    "tests/controlplane/telemetry/test_",
)
"""Folders and files by their start, the longest running first. Any other file is a system of its own and comes after them."""

KUBERNETES = (
    "tests/deploy/kubernetes/",
    "tests/controlplane/fleet/clusters/",
    "tests/controlplane/policy/test_on_kubernetes.py",
    "tests/controlplane/policy/test_pods_that_do_not_run.py",
    "tests/controlplane/policy/test_tiers_on_kubernetes.py",
    "tests/controlplane/sources/test_on_kubernetes.py",
)
"""One system too, which comes first: its control plane is started once."""


ASIDE = "gw3"
"""The worker that gets only files that start nothing, and the processor when nobody else wants it."""
STARTED = STARTING_FIXTURES | {
    "annex", "annexed", "caller", "dsn", "filled", "fresh", "reader", "redis_url", "served", "shared_store", "store",
}  # fmt: skip
"""Fixtures behind which something is started."""
_TAKES_STARTED = re.compile(rf"\b(?:{'|'.join(sorted(STARTED))}): [A-Z\"]|^pytestmark.*\bprocesses\b", re.MULTILINE)


def step_aside(worker: str) -> None:
    """Give way to the processes that the other workers wait for."""
    if worker == ASIDE:
        os.nice(10)


@cache
def starts_nothing(path: str) -> bool:
    """Whether no test of a file is of a shared system or starts a process, as far as its text says."""
    if path.startswith((*KUBERNETES, *SHARED_SYSTEMS)) or only_starts_processes(ROOT / path):
        return False
    return not _TAKES_STARTED.search((ROOT / path).read_text())


def is_of_kubernetes(nodeid: str) -> bool:
    """Whether a test runs among those that share a Kubernetes control plane."""
    return nodeid.startswith(KUBERNETES)


def system_of(nodeid: str) -> str:
    """The shared system of a test: a folder or file of SHARED_SYSTEMS, Kubernetes, or the test's own file."""
    path = nodeid.partition("::")[0]
    if is_of_kubernetes(nodeid):
        return "Kubernetes"
    folders = (start for start in SHARED_SYSTEMS if start.endswith("/") and path.startswith(start))
    return path if path in SHARED_SYSTEMS else next(folders, path)


def rank_of(nodeid: str) -> int:
    """The place of a test's system among Kubernetes and SHARED_SYSTEMS; of any other, behind them; of what starts nothing, last."""
    if is_of_kubernetes(nodeid):
        return -1
    ranks = (rank for rank, start in enumerate(SHARED_SYSTEMS) if nodeid.startswith(start))
    return next(ranks, len(SHARED_SYSTEMS) + starts_nothing(nodeid.partition("::")[0]))


class BySystem(LoadScopeScheduling):
    """As `--dist loadscope`, with systems as scopes, in the order in which they were collected; but for the worker ASIDE."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return system_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if node.gateway.id == ASIDE and (last := self._aside()):
            self.workqueue.move_to_end(last, last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        if node.gateway.id == ASIDE and self.workqueue and not node.shutting_down and not self._aside():
            node.shutdown()
        else:
            super()._reschedule(node)

    def _aside(self) -> str:
        """The last file that starts nothing; empty where none is left."""
        last = next(reversed(self.workqueue))
        return last if starts_nothing(last) else ""
