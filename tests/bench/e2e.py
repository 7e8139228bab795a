"""A newcomer's first minutes: a fresh clone, `make run`, a minute later the API; does every request's ledger close?"""

import json
import os
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.figures import Figure, say
from tests.bench.processes import ROOT, BenchError, Child, free_port, start

PATIENCE_S, LIVE_S = 600, 60
STAGES = ("gateway", "tokenizer", "cache", "queue", "model")


def run() -> Iterator[Figure]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-bench-")))
        clone = folder / "weir"
        subprocess.run(["git", "clone", "-q", "--no-hardlinks", str(ROOT), str(clone)], check=True, timeout=120)
        ports = {f"WEIR_{name}_PORT": str(free_port()) for name in ("WEB", "GATEWAY", "OTLP_HTTP", "OTLP_GRPC")}
        say("make run in a fresh clone")
        began = time.monotonic()
        shell = {key: value for key, value in os.environ.items() if not key.startswith(("WEIR_", "MAKE"))}
        env = {**shell, **ports, "WEIR_HOME": str(folder / "home")}
        child = start(stack, "make-run", ["make", "run"], folder, env, cwd=clone)
        _until_ready(child)
        yield Figure("run.ready_s", time.monotonic() - began, "s", "fresh clone, package cache as it was")
        say(f"waiting {LIVE_S} s of traffic")
        time.sleep(LIVE_S)
        api = _Api(f"http://127.0.0.1:{ports['WEIR_WEB_PORT']}/api/v1", (folder / "home" / "api-token").read_text())
        yield from _ledger(api)


def _until_ready(child: Child) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while "weir is ready" not in child.log.read_text(errors="replace"):
        if child.process.poll() is not None:
            raise BenchError("`make run` ended before it was ready")
        if time.monotonic() > deadline:
            raise BenchError(f"`make run` was not ready within {PATIENCE_S} s")
        time.sleep(0.1)


class _Api:
    def __init__(self, url: str, token: str) -> None:
        self._url, self._headers = url, {"Authorization": f"Bearer {token.strip()}"}

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(urllib.request.Request(f"{self._url}/{path}", headers=self._headers)) as response:
            return json.load(response)


def _ledger(api: _Api) -> Iterator[Figure]:
    """Raises BenchError where a row does not close or a stage saw no time: then there is nothing to report."""
    report = api.get("latency?from=now-15m&to=now")
    idle = [stage for stage in STAGES if report["stages"].get(stage, {}).get("p95_ms", 0) <= 0]
    if not report["requests"] or idle:
        raise BenchError(f"{report['requests']} requests, no time in {', '.join(idle)}")
    rows, cursor = [], ""
    while cursor is not None:
        page = api.get(
            f"requests?from=now-15m&to=now&limit=1000&order=newest{'&cursor=' + urllib.parse.quote(cursor) if cursor else ''}"
        )
        rows += page["rows"]
        cursor = page["next_cursor"]
    if open_ := [row for row in rows if sum(row["stages"].values()) + row["unattributed_ns"] != row["e2e_ns"]]:
        raise BenchError(f"{len(open_)} of {len(rows)} rows do not close, such as {open_[0]}")
    yield Figure("ledger.requests", len(rows), "requests", f"{LIVE_S} s of generated traffic")
    shares = [row["unattributed_ns"] / row["e2e_ns"] for row in rows if row["e2e_ns"]]
    yield Figure("ledger.unattributed_share_median", median(shares), "share", "of E2E, by request")
    yield Figure("ledger.unattributed_share_of_time", report["unattributed_share"], "share", "of all requests' time")
