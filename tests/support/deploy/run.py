"""A launcher on a WEIR_HOME of its own, as a newcomer starts it."""

import http.client
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

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
        """The oldest one whose command has these words."""
        matching = [
            process for process in self.processes() if all(word in " ".join(process.cmdline()) for word in words)
        ]
        return min(matching, key=psutil.Process.create_time)

    def get(self, path: str) -> Any:
        return self._ask("GET", path, None, 200)

    def post(self, path: str, document: Any) -> Any:
        return self._ask("POST", path, json.dumps(document), 201)

    def delete(self, path: str) -> Any:
        return self._ask("DELETE", path, None, 200)

    def _ask(self, method: str, path: str, body: str | None, status: int) -> Any:
        token = (self.home / "api-token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection = http.client.HTTPConnection("127.0.0.1", self.web, timeout=30)
        try:
            connection.request(method, f"/api/v1/{path}", body, headers)
            response = connection.getresponse()
            text = response.read()
            assert response.status == status, text
            return json.loads(text)
        finally:
            connection.close()

    def nothing_left(self) -> bool:
        return (
            not self.processes()
            and not list(SHARED_MEMORY.glob(f"{region_prefix(self.home)}*"))
            and all(is_free(port) for port in self.ports)
        )
