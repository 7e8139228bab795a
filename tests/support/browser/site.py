"""A whole Weir site for a browser: a real store, a real Redis, `web` under granian; traffic is written straight into the store.

`python -m tests.support.browser.site` runs one with live traffic until Ctrl-C, to look at pages by hand.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from channels_redis.pubsub import RedisPubSubChannelLayer

from controlplane.telemetry.store import Store, migrate
from deploy.local.ports import free_ports
from deploy.local.process import ROOT, Command, Managed
from deploy.local.redis import redis
from tests.support.deploy.migrated import migrate_home
from tests.support.oidc import OidcProvider
from tests.support.saml import SamlProvider
from tests.support.telemetry.embedded_store import embedded_store
from tests.support.web import signals, traffic

STARTS_WITHIN_S = 120
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
from controlplane.accounts.models import BreakGlass
from controlplane.fleet.models import Observation, Replica
busy = {"requests_per_s": 4.4, "errors_per_s": 0.02, "in_flight": 6, "answer_ms": 1.9}
idle = {"commands_per_s": 61.0, "used_memory_bytes": 4.1e6, "hit_ratio": 0.25, "answer_ms": 0.4}
seen = [("gateway", "gateway", "up", busy, ""), ("redis", "cache", "up", idle, ""),
        ("telemetry", "telemetry", "up", {"requests_per_s": 35.0}, ""), ("worker", "worker", "up", {}, ""),
        ("controller", "controller", "up", {"objectives": 4, "tick_ms": 31.0}, "")]
for replica in Replica.objects.select_related("pool"):
    sick = replica.name == "chat-large-1"
    seen.append((f"{replica.pool.name}/{replica.name}", "replica", "down" if sick else "up",
                 {} if sick else {"requests_per_s": 1.7, "mean_queue_ms": 3.2, "mean_compute_ms": 410.0},
                 "connection refused at 127.0.0.1:9101" if sick else ""))
BreakGlass.objects.all().delete()  # else each log-in by a password is a change on the charts
now = timezone.now()
for component, kind, state, figures, error in seen:
    Observation.objects.create(component=component, kind=kind, state=state, figures=figures, observed_at=now, error=error,
                               up_at=now - timezone.timedelta(hours=1))
"""


@dataclass(frozen=True, slots=True)
class Site:
    url: str
    home: Path
    store: Store
    redis_url: str
    environment: dict[str, str]
    django: subprocess.Popen[str]
    oidc: OidcProvider
    saml: SamlProvider
    """Where a test starts them; log-in through them is offered in any case."""

    @property
    def password(self) -> str:
        return (self.home / "admin-password").read_text().strip()

    @property
    def token(self) -> str:
        return (self.home / "api-token").read_text().strip()

    def begin_again(self) -> None:
        """A quarter of an hour of traffic and metrics that ends now, and nothing else; the queue of the larger model is growing."""
        tables = self.store.rows(
            "SELECT name FROM system.tables WHERE database = currentDatabase() AND name != 'schema_versions'"
        )
        for (table,) in tables:
            self.store.command(f"TRUNCATE TABLE {table}")
        now = time.time_ns()
        traffic.fill(self.store, 2400, now - 900 * 10**9, now)
        signals.fill(self.store, now)

    def age_s(self) -> float:
        """Since it began; decades where it never did."""
        ((newest_ns,),) = self.store.rows("SELECT max(time_ns) FROM scrapes")
        return float(time.time_ns() - newest_ns) / 1e9

    def shell(self, code: str) -> None:
        """Run it as the control plane would."""
        assert self.django.stdin is not None
        assert self.django.stdout is not None
        print(json.dumps(code), file=self.django.stdin, flush=True)
        problem = json.loads(self.django.stdout.readline())
        assert not problem, problem

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
    """Everything started, with a first user; stopped at the end, and tied to this process's life."""
    home.mkdir(parents=True, exist_ok=True)
    redis_port, store_port, web_port, oidc_port, saml_port = free_ports(5)
    oidc, saml = OidcProvider(oidc_port), SamlProvider(saml_port, home)
    keeper, url = redis(redis_port, home / "redis"), f"http://127.0.0.1:{web_port}"
    front, dsn = embedded_store(home, store_port)
    environment = {
        "WEIR_HOME": str(home),
        "WEIR_STORE_DSN": dsn,
        "WEIR_REDIS_URL": keeper.url,
        "WEIR_PUBLIC_URL": url,
        "WEIR_OIDC": json.dumps([oidc.settings()]),
        "WEIR_SAML": json.dumps([saml.settings()]),
        "WEIR_OIDC_REREAD_S": "0",
        "WEIR_OBSERVE_EVERY_S": "900",  # nobody observes here: what `OBSERVE` says stays true
        "WEIR_COMPONENT_UP_FOR_S": "1800",  # two rounds at least
        "DJANGO_SETTINGS_MODULE": "controlplane.settings",
    }
    with ExitStack() as running:

        def start(command: Command) -> None:
            part = Managed(command, home / f"{command.name}.log").start()
            running.callback(part.stop)
            part.wait_ready(STARTS_WITHIN_S)

        python = sys.executable
        granian = (
            str(Path(python).parent / "granian"),
            "--interface",
            "asginl",
            "--loop",
            "uvloop",
            "--port",
            str(web_port),
        )
        start(keeper.command)
        start(front)
        migrate(dsn)
        (home / "fleet.json").write_text(json.dumps(FLEET))
        migrate_home(home)
        bootstrap = (sys.executable, "manage.py", "bootstrap", "--fleet", str(home / "fleet.json"))
        subprocess.run(bootstrap, cwd=ROOT, env={**os.environ, **environment}, check=True)
        django = running.enter_context(_shell(environment))
        start(
            Command("web", (*granian, "controlplane.asgi:application"), lambda: _answers(f"{url}/healthz"), environment)
        )
        site = Site(url, home, Store(dsn), keeper.url, environment, django, oidc, saml)
        site.shell(OBSERVE)
        yield site


@contextmanager
def _shell(environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    command = (sys.executable, "-m", "tests.support.browser.shell")
    running = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with running:
        yield running
        running.kill()


def _answers(url: str) -> bool:
    with urllib.request.urlopen(url, timeout=2) as answer:
        return bool(answer.status == 200)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, running_site(Path(folder)) as site:
        site.begin_again()
        print(f"{site.url}  admin  {site.password}\n{site.token}", flush=True)
        seed = 100
        while True:
            time.sleep(2)
            site.arrive(6, 2, seed := seed + 1)


if __name__ == "__main__":
    main()
