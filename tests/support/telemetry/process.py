"""A real `python -m controlplane.telemetry`, which tests may kill and start again."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO

import psutil
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from controlplane.telemetry.store import Store, access
from tests.support.wait import eventually

PATIENCE_S = 300.0  # chDB alone takes ten seconds to load on a busy machine


class Running:
    """A home folder and the telemetry process on it."""

    def __init__(self, home: Path, **settings: object) -> None:
        self.home = home
        self._environment = {
            **os.environ,
            "WEIR_HOME": str(home),
            "WEIR_OTLP_HTTP_PORT": "0",
            "WEIR_OTLP_GRPC_PORT": "0",
            "WEIR_REDIS_URL": "redis://127.0.0.1:1/0",
            "WEIR_TRACE_QUIET_S": "0.3",
            "WEIR_TRACE_ROOT_S": "0.5",
            "WEIR_RETENTION_DAYS": "3660",  # recorded traces are years old
            "WEIR_SCRAPE_TARGETS": str(home / "targets.json"),
            **{f"WEIR_{name.upper()}": str(value) for name, value in settings.items()},
        }
        self.log = home / "telemetry.log"
        self._targets = home / "targets.json"
        self.process: subprocess.Popen[str] | None = None
        self.http_port = self.grpc_port = 0
        self._stderr: IO[bytes] | None = None

    def start(self) -> "Running":
        self.home.mkdir(parents=True, exist_ok=True)
        self.scrape()
        self._stderr = self.log.open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "controlplane.telemetry"],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.fullmatch(r"otlp http=(\d+) grpc=(\d+)\n", line)
        assert found, f"telemetry printed {line!r}; its log ends with\n{self.log.read_text()[-2000:]}"
        self.http_port, self.grpc_port = int(found[1]), int(found[2])
        return self

    def scrape(self, *targets: dict[str, object]) -> None:
        """Have it scrape these targets, and no others, from when it next reads its list."""
        self._targets.write_text(json.dumps(targets))

    def ready(self) -> "Running":
        """Wait until it has reached the store."""
        eventually(lambda: self.get("/readyz")[0] == 200, "telemetry is ready")
        return self

    def stop(self) -> int:
        """Stop it as its supervisor does. Returns the exit code."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.terminate()
        code = self.process.wait(PATIENCE_S)
        self._closed()
        return code

    def kill(self) -> None:
        """SIGKILL, as the kernel's out-of-memory killer would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(PATIENCE_S)
        self._closed()

    def _closed(self) -> None:
        assert self.process is not None and self.process.stdout is not None and self._stderr is not None
        self.process.stdout.close()
        self._stderr.close()
        self.process = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    def children(self) -> list[psutil.Process]:
        assert self.process is not None
        return psutil.Process(self.process.pid).children(recursive=True)

    def child(self, module: str) -> psutil.Process:
        [found] = [child for child in self.children() if f"controlplane.telemetry.{module}" in child.cmdline()]
        return found

    def kill_child(self, module: str) -> None:
        """Send SIGKILL to a child, if it runs now."""
        for child in self.children():
            with suppress(psutil.NoSuchProcess):
                if f"controlplane.telemetry.{module}" in child.cmdline():
                    child.kill()

    def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        return request("GET", self.url + path, headers=headers)[:2]

    def readiness(self) -> dict[str, object]:
        answer: dict[str, object] = json.loads(self.get("/readyz")[1])
        return answer

    def metric(self, name: str) -> float:
        """The sum of a metric's samples."""
        text = self.get("/metrics")[1].decode()
        return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if re.match(rf"{name}(?:\{{| )", line))

    def post(self, body: bytes, signal: str = "traces", **headers: str) -> tuple[int, bytes, dict[str, str]]:
        given = {"Content-Type": "application/x-protobuf"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        return request("POST", f"{self.url}/v1/{signal}", body, given)

    @contextmanager
    def store(self) -> Iterator[Store]:
        """A connection to its embedded store."""
        port = int((self.home / "run" / "store-port").read_text())
        with closing(Store(access.dsn(self.home, port))) as store:
            yield store

    def pause(self, module: str) -> Callable[[], None]:
        """Stop a child without ending it. Returns a function that resumes it."""
        pid = self.child(module).pid
        os.kill(pid, signal.SIGSTOP)
        return lambda: os.kill(pid, signal.SIGCONT)


@contextmanager
def running(home: Path, **settings: object) -> Iterator[Running]:
    """A telemetry process that is ready, and must end in order."""
    telemetry = Running(home, **settings).start()
    try:
        yield telemetry.ready()
    finally:
        code = telemetry.stop()
    assert code == 0


def request(
    method: str, url: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, bytes, dict[str, str]]:
    """Status, body and headers of the answer, also for a status of 4xx or 5xx."""
    asked = urllib.request.Request(url, body, headers or {}, method=method)
    try:
        with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), dict(error.headers)


Run = Callable[..., Running]


def trace_of(body: bytes) -> str:
    made = ExportTraceServiceRequest.FromString(body)
    return made.resource_spans[0].scope_spans[0].spans[0].trace_id.hex()


def has_row(telemetry: Running, body: bytes) -> bool:
    with telemetry.store() as store:
        return store.ping() and len(store.requests.request_rows(trace_of(body))) == 1
