"""Where the programs of a Kubernetes control plane are."""

import fcntl
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from deploy.local.process import ROOT
from tests.support import need

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "weir"
PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubemark")


@dataclass(frozen=True, slots=True)
class Binaries:
    folder: Path
    etcd: Path

    def __getitem__(self, name: str) -> str:
        return str(self.folder / name)


def binaries() -> Binaries:
    """From KUBEBUILDER_ASSETS, else from the archive of the shared tools. Without them, the test is skipped, or fails in CI."""
    folder = Path(os.environ["KUBEBUILDER_ASSETS"]) if "KUBEBUILDER_ASSETS" in os.environ else _unpacked()
    missing = [name for name in PROGRAMS if not (folder / name).exists()]
    if missing:
        need.missing(f"KUBEBUILDER_ASSETS={folder} has no {', '.join(missing)}: put them there, or set KUBECONFIG")
    etcd = folder / "etcd"
    return Binaries(folder, etcd if etcd.exists() else need.program("etcd", install="apt-get install -y etcd-server"))


def _unpacked() -> Path:
    """The programs of the archive, unpacked once on a machine."""
    shared = Path(os.environ.get("WEIR_SHARED_DIR", ROOT.parent / "shared")) / "tools" / "kubernetes"
    archive = next(iter(sorted(shared.glob("kubernetes-*.tar.xz"))), None)
    if archive is None:
        need.missing("no cluster: set KUBECONFIG, or KUBEBUILDER_ASSETS to a folder with " + ", ".join(PROGRAMS))
    folder = CACHE / archive.name.removesuffix(".tar.xz")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / ".unpacked"
        if not done.exists():
            subprocess.run(("tar", "xJf", archive, "-C", folder), check=True)
            done.touch()
    return folder
