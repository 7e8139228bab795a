"""A real Kubernetes control plane on loopback, with hollow nodes that run nothing and say that their pods are ready."""

import contextlib
import json
import os
import signal
import ssl
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from deploy.local.ports import free_ports
from deploy.local.process import Command, Managed
from tests.support.cluster.authority import Authority
from tests.support.cluster.binaries import Binaries
from tests.support.wait import eventually

GPU = "nvidia.com/gpu"


class ControlPlane:
    """Started by `start`, ended by `stop`. Its files are in `folder`."""

    def __init__(self, folder: Path, binaries: Binaries, *, nodes: int = 2, gpus: int = 4) -> None:
        self.folder = folder
        self.nodes = nodes
        self._gpus = gpus
        self._binaries = binaries
        self._running: list[Managed] = []
        self._authority = Authority(folder)
        self.port = 0
        self.kubeconfig = folder / "kubeconfig"

    def start(self) -> "ControlPlane":
        etcd, peer, self.port, manager, scheduler, *kubelets = free_ports(5 + 2 * self.nodes)
        files = self.folder
        certificate, key = self._authority.issue("server", "127.0.0.1")
        private, public = self._authority.token_keys()
        self.write_kubeconfig(self.kubeconfig, "admin", "system:masters")
        store = f"http://127.0.0.1:{etcd}"
        self._run(
            "etcd", str(self._binaries.etcd), f"--data-dir={files / 'etcd'}", "--unsafe-no-fsync",
            f"--listen-client-urls={store}", f"--advertise-client-urls={store}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
        )  # fmt: skip
        self.server = self._run(
            "apiserver", self._binaries["kube-apiserver"], f"--etcd-servers={store}", "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1", f"--secure-port={self.port}", "--endpoint-reconciler-type=none",
            f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}", f"--client-ca-file={files / 'ca.crt'}",
            "--authorization-mode=RBAC", "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.local", f"--service-account-key-file={public}",
            f"--service-account-signing-key-file={private}", "--disable-admission-plugins=ServiceAccount",
        )  # fmt: skip
        eventually(self._comes_up, self.server.log_tail)
        own = f"--kubeconfig={self.kubeconfig}"
        loopback = ("--leader-elect=false", "--bind-address=127.0.0.1")
        self._run(
            "manager", self._binaries["kube-controller-manager"], own, f"--secure-port={manager}", *loopback,
            f"--service-account-private-key-file={private}", f"--root-ca-file={files / 'ca.crt'}",
        )  # fmt: skip
        self._run("scheduler", self._binaries["kube-scheduler"], own, f"--secure-port={scheduler}", *loopback)
        for index in range(self.nodes):
            self._run(
                f"gpu-{index}", self._binaries["kubemark"], "--morph=kubelet", f"--name=gpu-{index}", own,
                f"--kubelet-port={kubelets[2 * index]}", f"--kubelet-read-only-port={kubelets[2 * index + 1]}",
                "--use-host-image-service=false", f"--extended-resources={GPU}={self._gpus}",
            )  # fmt: skip
        eventually(lambda: self.ready_nodes() >= self.nodes, lambda: f"{self.ready_nodes()} nodes are ready")
        return self

    def stop(self) -> None:
        """Nothing of it is kept: an API server that ends in order waits for every watch."""
        while self._running:
            self._running.pop().kill()

    def write_kubeconfig(self, path: Path, user: str, *groups: str) -> Path:
        """Credentials of a user of these groups, for the API server."""
        certificate, key = self._authority.issue(path.name, user, *groups)
        cluster = {"server": f"https://127.0.0.1:{self.port}", "certificate-authority": str(self.folder / "ca.crt")}
        path.write_text(kubeconfig(cluster, user, {"client-certificate": str(certificate), "client-key": str(key)}))
        return path

    def pause(self) -> None:
        """The API server hangs: it accepts connections, and answers none."""
        os.kill(self.server.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.server.pid, signal.SIGCONT)

    def kill_server(self) -> None:
        """The API server is gone, and all connections with it."""
        self.server.kill()

    def restart_server(self) -> None:
        self.server.start()
        eventually(self.is_ready, self.server.log_tail)

    def is_ready(self) -> bool:
        with contextlib.suppress(OSError):
            return self.get("/readyz", text=True) == "ok"
        return False

    def _comes_up(self) -> bool:
        ended = [process.log_tail() for process in self._running if not process.alive]
        assert not ended, ended[0]
        return self.is_ready()

    def ready_nodes(self) -> int:
        listed = self.get("/api/v1/nodes")["items"]
        return sum(
            any(
                state["type"] == "Ready" and state["status"] == "True" for state in node["status"].get("conditions", ())
            )
            for node in listed
        )

    def get(self, path: str, *, text: bool = False) -> Any:
        return self.call("GET", path, text=text)

    def call(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json", *, text: bool = False
    ) -> Any:
        """A request by the administrator, with another client than Weir's. Raises urllib's HTTPError."""
        context = ssl.create_default_context(cafile=self.folder / "ca.crt")
        context.load_cert_chain(self.folder / "kubeconfig.crt", self.folder / "kubeconfig.key")
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"https://127.0.0.1:{self.port}{path}", data, {"Content-Type": content_type}, method=method
        )
        with urllib.request.urlopen(request, timeout=60, context=context) as response:
            answer = response.read()
        return answer.decode() if text else json.loads(answer)

    def _run(self, name: str, *argv: str) -> Managed:
        process = Managed(Command(name, argv, env={"TMPDIR": str(self.folder)}), self.folder / f"{name}.log")
        self._running.append(process)
        return process.start()


def kubeconfig(cluster: dict[str, str], name: str, user: dict[str, str]) -> str:
    """The text of a file that leads to this cluster as this user."""
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
            "current-context": "test",
        }
    )


def control_plane(folder: Path, binaries: Binaries, **options: int) -> Iterator[ControlPlane]:
    """One that ends whatever happens."""
    running = ControlPlane(folder, binaries, **options)
    try:
        yield running.start()
    finally:
        running.stop()
