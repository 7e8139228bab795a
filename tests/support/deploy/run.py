"""A launcher on a WEIR_HOME of its own, as a newcomer starts it."""

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import psutil

from controlplane.fleet.core.local_cluster import POOLS_PATH, LocalPool, LocalState
from deploy.local.home_lock import MARK, region_prefix
from deploy.local.ports import free_ports, is_free
from deploy.local.process import ROOT
from deploy.local.triton import SHARED_MEMORY
from tests.support.wait import eventually

START_S = 400.0  # also on a machine that has other things to do
PATIENCE_S = 120.0


class Run:
    """One WEIR_HOME with its ports, and the launcher on it."""

    def __init__(self, home: Path, **env: str) -> None:
        self.home = home
        self.output = home.with_suffix(".output")
        self.web, self.gateway, otlp_http, otlp_grpc = self.ports = free_ports(4)
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("WEIR_")},
            "WEIR_HOME": str(home),
            "WEIR_WEB_PORT": str(self.web),
            "WEIR_GATEWAY_PORT": str(self.gateway),
            "WEIR_OTLP_HTTP_PORT": str(otlp_http),
            "WEIR_OTLP_GRPC_PORT": str(otlp_grpc),
            **env,
        }

    def start(self) -> None:
        with self.output.open("wb") as output:
            self.launcher = subprocess.Popen(
                (sys.executable, "-m", "deploy.local"), cwd=ROOT, env=self.env, stdout=output, stderr=output
            )
        self.said("weir is ready\n", START_S)

    def said(self, text: str, timeout_s: float = PATIENCE_S) -> str:
        """All of its output, once `text` is in it."""
        eventually(lambda: text in self.output.read_text() or self.launcher.poll() is not None, within_s=timeout_s)
        output = self.output.read_text()
        assert text in output, output
        return output

    def end(self) -> None:
        """Ends the launcher, and kills what it leaves behind."""
        if self.launcher.poll() is None:
            self.launcher.terminate()
            self.launcher.wait(PATIENCE_S)
        for process in self.processes():
            process.kill()

    def processes(self) -> list[psutil.Process]:
        """Whatever was started for this home and still runs, the launcher aside."""
        running = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get(MARK) == str(self.home) and process.status() != psutil.STATUS_ZOMBIE:
                    running.append(process)
        return running

    def process(self, *words: str) -> psutil.Process:
        """The oldest one whose command has these words, once there is one: a part may be between two lives."""
        found: list[psutil.Process] = []

        def is_there() -> bool:
            for process in self.processes():
                with suppress(psutil.Error):
                    if all(word in " ".join(process.cmdline()) for word in words):
                        found.append(process)
            return bool(found)

        eventually(is_there, f"no process of {self.home} has {words} in its command")
        return min(found, key=psutil.Process.create_time)

    def pool(self, name: str) -> LocalPool:
        """A pool as the launcher's cluster has it."""
        url = self.process("-m controlplane.controller").environ()["WEIR_LOCAL_CLUSTER_URL"]
        state = msgspec.convert(
            self._ask("GET", POOLS_PATH, token="cluster-token", port=urlsplit(url).port), LocalState
        )
        return next(pool for pool in state.pools if pool.name == name)

    def replicas(self, pool: str) -> set[str]:
        return {replica.name for replica in self.pool(pool).replicas}

    def is_steady(self, pool: str) -> bool:
        """Whether the replicas that are wanted are ready, and none ends."""
        seen = self.pool(pool)
        return [replica.state for replica in seen.replicas] == ["ready"] * seen.wanted

    @contextmanager
    def without_traffic(self) -> Iterator[None]:
        """No requests are generated while the block runs, so that no pool needs more than its least, however slow the machine is."""
        traffic = self.process("-m deploy.local.traffic")
        traffic.suspend()
        try:
            yield
        finally:
            traffic.resume()

    @contextmanager
    def paused(self, pool: str) -> Iterator[None]:
        """No policy changes the pool's replicas while the block runs, whatever the load does. Begins once no change is under way."""
        ends_at = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
        pause = self.post("pauses", {"scope": "pool", "target": pool, "ends_at": ends_at, "reason": "a test"})
        try:
            eventually(lambda: self._holds_for_a_pause(pool) and self.is_steady(pool), within_s=START_S)
            yield
        finally:
            self.delete(f"pauses/{pause['number']}")

    def _holds_for_a_pause(self, pool: str) -> bool:
        held = self.get(f"decisions?pool={pool}&kind=hold&limit=1")["changes"]
        return bool(held) and held[0]["reason"].startswith("paused")

    def ask(self, text: str) -> None:
        """Have the gateway answer a question that it may keep."""
        body = {
            "model": "chat-small",
            "messages": [{"role": "user", "content": text}],
            "max_tokens": 8,
            "temperature": 0,
        }
        self._ask("POST", "/v1/chat/completions", json.dumps(body), token="gateway-key", port=self.gateway)

    def get(self, path: str) -> Any:
        return self._ask("GET", f"/api/v1/{path}")

    def post(self, path: str, document: Any) -> Any:
        return self._ask("POST", f"/api/v1/{path}", json.dumps(document), 201)

    def delete(self, path: str, status: int = 200) -> Any:
        return self._ask("DELETE", f"/api/v1/{path}", status=status)

    def _ask(
        self,
        method: str,
        path: str,
        body: str | None = None,
        status: int = 200,
        *,
        token: str = "api-token",
        port: int | None = None,
    ) -> Any:
        secret = (self.home / token).read_text().strip()
        headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        connection = http.client.HTTPConnection("127.0.0.1", port or self.web, timeout=PATIENCE_S)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            text = response.read()
            assert response.status == status, text
            return json.loads(text) if text else None
        finally:
            connection.close()

    def nothing_left(self) -> bool:
        return (
            not self.processes()
            and not list(SHARED_MEMORY.glob(f"{region_prefix(self.home)}*"))
            and all(is_free(port) for port in self.ports)
        )
