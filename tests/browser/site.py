"""A whole Weir site for a browser: a real store, a real Redis, `web` under granian; traffic is written straight into the store.

`python -m tests.browser.site` runs one with live traffic until Ctrl-C, to look at pages by hand.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from channels_redis.pubsub import RedisPubSubChannelLayer

from controlplane.telemetry.store import Store
from deploy.local.redis import redis
from tests.controlplane import traffic

ROOT = Path(__file__).resolve().parent.parent.parent
STARTS_WITHIN_S = 60
FLEET = {
    "models": [
        {
            "name": model,
            "pools": [
                {
                    "name": f"{model}-local", "variant": f"{model}-fp16", "region": "local", "model_name": model, "model_version": "1",
                    "replicas": [
                        {"name": f"{model}-{number}", "grpc": f"127.0.0.1:{9000 + number}", "http": f"127.0.0.1:{9100 + number}"}
                        for number in range(2)
                    ],
                }
            ],
        }
        for model in traffic.MODELS
    ]
}  # fmt: skip
OBSERVE = """
from django.utils import timezone
from controlplane.fleet.models import Observation, Replica
busy = {"requests_per_s": 4.4, "errors_per_s": 0.02, "in_flight": 6, "answer_ms": 1.9}
idle = {"commands_per_s": 61.0, "used_memory_bytes": 4.1e6, "hit_ratio": 0.25, "answer_ms": 0.4}
seen = [("gateway", "gateway", "up", busy, ""), ("redis", "cache", "up", idle, ""),
        ("telemetry", "telemetry", "up", {"requests_per_s": 35.0}, ""), ("worker", "worker", "up", {}, "")]
for replica in Replica.objects.select_related("pool"):
    sick = replica.name == "chat-large-1"
    seen.append((f"{replica.pool.name}/{replica.name}", "replica", "down" if sick else "up",
                 {} if sick else {"requests_per_s": 1.7, "mean_queue_ms": 3.2, "mean_compute_ms": 410.0},
                 "connection refused at 127.0.0.1:9101" if sick else ""))
for component, kind, state, figures, error in seen:
    Observation.objects.create(component=component, kind=kind, state=state, figures=figures, observed_at=timezone.now(), error=error)
"""


@dataclass(frozen=True, slots=True)
class Site:
    url: str
    home: Path
    store: Store
    redis_url: str

    @property
    def password(self) -> str:
        return (self.home / "admin-password").read_text().strip()

    @property
    def token(self) -> str:
        return (self.home / "api-token").read_text().strip()

    def announce(self, newest_ns: int, requests: int) -> None:
        """What `telemetry` says after it has written."""

        async def say() -> None:
            layer = RedisPubSubChannelLayer(hosts=[self.redis_url], prefix="weir")
            await layer.group_send("live", {"type": "live.changed", "newest_ns": newest_ns, "requests": requests})
            await layer.flush()

        with ThreadPoolExecutor(1) as aside:  # playwright keeps a loop of its own in the calling thread
            aside.submit(asyncio.run, say()).result()

    def arrive(self, count: int, over_s: float, seed: int) -> None:
        """New requests of the last `over_s` seconds, and the word that they are there."""
        now = time.time_ns()
        traffic.fill(self.store, count, now - int(over_s * 1e9), now, seed)
        self.announce(now, count)


@contextmanager
def running_site(home: Path) -> Iterator[Site]:
    """Everything started, with a first user; stopped at the end, whatever happens."""
    home.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        keeper = redis(_free_port(), home / "redis")
        stack.enter_context(_child(list(keeper.command.argv), home, "redis"))
        front = stack.enter_context(
            _child([sys.executable, "-m", "controlplane.telemetry.store", "--home", str(home)], home, "store")
        )
        assert front.stdout is not None
        dsn = next((line.strip() for line in front.stdout if line.startswith("clickhouse://")), "")
        assert dsn, f"the store did not start: see {home / 'store.log'}"
        port = _free_port()
        environment = {
            **os.environ,
            "WEIR_HOME": str(home),
            "WEIR_STORE_DSN": dsn,
            "WEIR_REDIS_URL": keeper.url,
            "WEIR_STALE_AFTER_S": "3600",  # nobody observes here: what `OBSERVED` says stays true
            "DJANGO_SETTINGS_MODULE": "controlplane.settings",
        }
        (home / "fleet.json").write_text(json.dumps(FLEET))
        for command in (
            ["migrate", "-v0"],
            ["bootstrap", "--fleet", str(home / "fleet.json")],
            ["shell", "-v0", "-c", OBSERVE],
        ):
            subprocess.run(
                [sys.executable, "manage.py", *command], cwd=ROOT, env=environment, check=True, capture_output=True
            )
        granian = [
            str(Path(sys.executable).parent / "granian"),
            "--interface",
            "asginl",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
        ]
        web = stack.enter_context(
            _child([*granian, "--loop", "uvloop", "controlplane.asgi:application"], home, "web", environment)
        )
        url = f"http://127.0.0.1:{port}"
        _wait(f"{url}/healthz", web, home / "web.log")
        yield Site(url, home, Store(dsn), keeper.url)


@contextmanager
def _child(
    command: list[str], home: Path, name: str, environment: dict[str, str] | None = None
) -> Iterator["subprocess.Popen[str]"]:
    with (home / f"{name}.log").open("w") as log:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE if name == "store" else log,
            stderr=log,
            text=True,
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(url: str, process: "subprocess.Popen[str]", log: Path) -> None:
    deadline = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(0.1)
    raise AssertionError(f"web did not answer at {url}:\n{log.read_text()[-3000:]}")


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, running_site(Path(folder)) as site:
        now = time.time_ns()
        traffic.fill(site.store, 4000, now - int(900e9), now)
        print(f"{site.url}  admin  {site.password}\n{site.token}", flush=True)
        seed = 100
        while True:
            time.sleep(2)
            site.arrive(6, 2, seed := seed + 1)


if __name__ == "__main__":
    main()
