"""A local cluster of cheap replicas, under the real supervisor and its API, in a process of its own.

    python -m tests.support.deploy.launched_cluster PORT FOLDER SLOTS TOKENS STEP_MS SLOTS_PER_REPLICA POOL=REPLICAS…

A replica is `tests/support/servers/slow_replica.py`; while the file `FOLDER/never` exists, new ones end at once.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from controlplane.fleet.clusters.local import LocalCluster as Client
from controlplane.fleet.clusters.port import PoolBinding
from deploy.local.cluster.api import serving
from deploy.local.cluster.replicas import LocalCluster, PoolPlan, Server
from deploy.local.ports import LOOPBACK, free_port
from deploy.local.process import ROOT, Command, http_ok, http_status
from deploy.local.supervisor import Part, Supervisor
from deploy.local.watch import Patience
from tests.support.servers import slow_replica
from tests.support.wait import eventually

TOKEN = "token-of-the-local-cluster-of-a-test"
READY_S = 300.0


@dataclass(frozen=True, slots=True)
class Launched:
    url: str
    output: Path
    process: subprocess.Popen[bytes]

    def client(self, *pools: str, token: str = TOKEN) -> Client:
        """A client that watches these pools. Close it."""
        client = Client("local", self.url, token)
        client.bind([PoolBinding(pool, pool, "openai") for pool in pools])
        return client


@contextmanager
def launched(
    folder: Path, *, slots: int = 8, tokens: int = 4, step_ms: float = 5, slots_per_replica: int = 8, **pools: int
) -> Iterator[Launched]:
    """Runs while the block runs, once its first replicas are ready."""
    port = free_port()
    output = folder / "output"
    arguments = (port, folder, slots, tokens, step_ms, slots_per_replica, *(f"{name}={n}" for name, n in pools.items()))
    with output.open("wb") as file:
        process = subprocess.Popen(
            (sys.executable, "-m", __spec__.name, *map(str, arguments)), cwd=ROOT, stdout=file, stderr=file
        )
    try:
        eventually(lambda: "ALL READY" in output.read_text() or process.poll() is not None, within_s=READY_S)
        assert process.poll() is None, output.read_text()
        yield Launched(f"http://{LOOPBACK}:{port}", output, process)
    finally:
        process.terminate()
        process.wait(READY_S)


def _server(folder: Path, pool: str, arguments: tuple[str, ...], name: str) -> Server:
    port = free_port()
    argv = (sys.executable, "-S", "-I", slow_replica.__file__, str(port), pool, *arguments)
    if (folder / "never").exists():
        argv = (sys.executable, "-S", "-I", "-c", "raise SystemExit(3)")
    command = Command(name, argv, partial(http_ok, port, "/health"), answers=partial(http_status, port, "/health"))
    return Server(
        Part(command), {"url": f"http://{LOOPBACK}:{port}/v1", "metrics": f"http://{LOOPBACK}:{port}/metrics"}
    )


def main() -> None:
    port, folder, slots, tokens, step_ms, each, *pools = sys.argv[1:]
    logs = Path(folder) / "logs"
    plans = [
        PoolPlan(name, int(count), partial(_server, Path(folder), name, (tokens, step_ms, each)))
        for name, count in (pool.split("=") for pool in pools)
    ]
    cluster = LocalCluster(plans, int(slots), logs)
    with serving(cluster, int(port), TOKEN):
        Supervisor(
            cluster.parts(), logs, lambda text: print(text, flush=True), Patience(), each_round=cluster.keep
        ).run(lambda: print("ALL READY", flush=True))


if __name__ == "__main__":
    main()
