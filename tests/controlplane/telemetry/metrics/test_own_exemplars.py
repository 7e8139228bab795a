"""From Weir's own latency to the trace of a request: a real web process that telemetry scrapes, and to which it sends its spans."""

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from controlplane.telemetry.metrics.scrape.targets import FILE
from deploy.local.ports import free_port
from deploy.local.process import ROOT, Command, Managed
from tests.support.telemetry.process import Run, request
from tests.support.wait import eventually

TRACE, CALLER = "ab" * 16, "cd" * 8


def test_from_our_own_latency_to_the_trace_of_a_request(run: Run) -> None:
    telemetry = run().ready()
    port, home = free_port(), telemetry.home
    url = f"http://127.0.0.1:{port}"
    with telemetry.store() as store:
        dsn = (
            f"clickhouse://weir:{(home / 'store-password').read_text().strip()}@{store.dsn.host}:{store.dsn.port}/weir"
        )
    environment = {
        "WEIR_HOME": str(home), "WEIR_STORE_DSN": dsn, "WEIR_OTLP_ENDPOINT": telemetry.url, "WEIR_REDIS_URL": "redis://127.0.0.1:1/0",
        "WEIR_PUBLIC_URL": url, "WEIR_METRICS_TOKEN": "m" * 32, "DJANGO_SETTINGS_MODULE": "controlplane.settings",
    }  # fmt: skip
    for command in (("migrate", "-v0"), ("bootstrap",)):
        subprocess.run([sys.executable, "manage.py", *command], cwd=ROOT, env={**os.environ, **environment}, check=True)
    token = home / "api-token"
    granian = str(Path(sys.executable).parent / "granian")
    serve = (granian, "--interface", "asginl", "--port", str(port), "controlplane.asgi:application")
    web = Managed(
        Command("web", serve, lambda: request("GET", f"{url}/healthz")[0] == 200, environment), home / "web.log"
    ).start()

    def get(path: str) -> Any:
        asked = urllib.request.Request(
            f"{url}/api/v1/{path}", headers={"Authorization": f"Bearer {token.read_text().strip()}"}
        )
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return json.load(answer)

    try:
        web.wait_ready(120)
        own = {
            "job": "web",
            "url": f"{url}/metrics",
            "interval_s": 0.5,
            "timeout_s": 10,
            "bearer_token_file": str(token),
        }
        (home / FILE).write_text(json.dumps([own]))
        request("GET", f"{url}/login", headers={"traceparent": f"00-{TRACE}-{CALLER}-01"})
        points = "series/points?metric=weir_web_request_duration_seconds_bucket&match=route=login"
        eventually(lambda: bool(get(points)["exemplars"]), "the request's exemplar is there")
        [found] = get(points)["exemplars"]
        assert found["trace_id"] == TRACE and found["span_id"] not in (None, CALLER)
        assert 0 < found["value"] <= float(found["labels"]["le"])
        spans = get(f"traces/{TRACE}")["spans"]
        assert found["span_id"] in {span["span_id"] for span in spans}
    finally:
        web.stop()
