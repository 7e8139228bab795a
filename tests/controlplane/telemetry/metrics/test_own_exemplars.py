"""From Weir's own latency to the trace of a request: a real web process that telemetry scrapes, and to which it sends its spans."""

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from controlplane.telemetry.store import access
from deploy.local.ports import free_port
from deploy.local.process import ROOT, Command, Managed
from tests.support.deploy.migrated import migrate_home
from tests.support.telemetry.process import Running, request
from tests.support.wait import eventually

TRACE, CALLER = "ad" * 16, "cd" * 8


def test_from_our_own_latency_to_the_trace_of_a_request(telemetry: Running, tmp_path: Path) -> None:
    port, home = free_port(), tmp_path / "web"
    url, token = f"http://127.0.0.1:{port}", home / "api-token"
    with telemetry.store() as store:
        dsn = access.dsn(telemetry.home, store.dsn.port)
    environment = {
        "WEIR_HOME": str(home), "WEIR_STORE_DSN": dsn, "WEIR_OTLP_ENDPOINT": telemetry.url, "WEIR_REDIS_URL": "redis://127.0.0.1:1/0",
        "WEIR_PUBLIC_URL": url, "WEIR_METRICS_TOKEN": "m" * 32, "DJANGO_SETTINGS_MODULE": "controlplane.settings",
    }  # fmt: skip
    migrate_home(home)
    subprocess.run([sys.executable, "manage.py", "bootstrap"], cwd=ROOT, env={**os.environ, **environment}, check=True)
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
        telemetry.scrape(
            {"job": "web", "url": f"{url}/metrics", "interval_s": 0.5, "timeout_s": 10, "bearer_token_file": str(token)}
        )
        request("GET", f"{url}/login", headers={"traceparent": f"00-{TRACE}-{CALLER}-01"})
        points = "series/points?metric=weir_web_request_duration_seconds_bucket&match=route=login"
        eventually(lambda: bool(get(points)["exemplars"]), "the request's exemplar is there")
        [found] = get(points)["exemplars"]
        assert found["trace_id"] == TRACE and found["span_id"] not in (None, CALLER)
        assert 0 < found["value"] <= float(found["labels"]["le"])
        spans = get(f"traces/{TRACE}")["spans"]
        assert found["span_id"] in {span["span_id"] for span in spans}
    finally:
        telemetry.scrape()
        web.stop()
