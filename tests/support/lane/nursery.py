"""Lanes that start at once, for tests that kill hundreds: forks of a process that has loaded all of their code, and opened nothing."""

import http.client
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from deploy.local.process import ROOT, http_ok
from tests.support.start import READY_S
from tests.support.wait import eventually


class Nursery:
    """A context. `env` is the lanes', whose output goes to `log`."""

    def __init__(self, env: Mapping[str, str], log: Path) -> None:
        self._env, self._log = {**os.environ, **env}, log

    def __enter__(self) -> "Nursery":
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                (sys.executable, "-m", __name__),
                env=self._env,
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                bufsize=1,
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.communicate()

    def fork(self, port: int) -> int:
        """The pid of a lane that will answer there."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(port, file=self._process.stdin)
        return int(self._process.stdout.readline())


class ForkedLane:
    def __init__(self, nursery: Nursery, port: int) -> None:
        self._nursery, self._port = nursery, port
        self._pid = 0

    def start(self) -> "ForkedLane":
        self._pid = self._nursery.fork(self._port)
        return self

    def wait_ready(self) -> None:
        eventually(self._is_ready, within_s=READY_S)

    def _is_ready(self) -> bool:
        try:
            return http_ok(self._port, "/readyz")
        except (OSError, http.client.HTTPException):
            return False

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        eventually(lambda: not Path(f"/proc/{self._pid}").exists())


def _main() -> None:
    """A line of the input is a port. What lives at the input's end is killed."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    import django

    django.setup()
    import controlplane.lane.process  # noqa: F401
    from controlplane.lane.__main__ import main

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # whoever has ended is gone
    os.setpgid(0, 0)
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.environ["WEIR_LANE_PORT"] = line.strip()
            os.dup2(2, 1)
            main()
            os._exit(0)
        print(pid, flush=True)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    _main()
