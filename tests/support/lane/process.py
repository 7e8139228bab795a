"""A lane and a gateway as a user runs them, in front of a model server of the test."""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from openai import AsyncOpenAI
from openai.types import Batch
from openai.types.responses import Response

from deploy.local.ports import LOOPBACK, free_port
from deploy.local.process import ROOT, Command, Managed, http_ok
from inference.contract.snapshot import CacheRule, Endpoint, Model, Pool, Route, Snapshot, Tier
from tests.support.deploy.migrated import migrate_home
from tests.support.gateway.process import KEY, Gateway, a_snapshot, gateway_command
from tests.support.gateway.tls import Issued
from tests.support.lane.model_server import MODEL
from tests.support.start import Start
from tests.support.wait import eventually_async

TOKEN = "lane-token-of-the-tests-0123456789abcdef"
PLACES = 512
ENDED = ("completed", "failed", "expired", "cancelled")


@dataclass(slots=True)
class Stack:
    """The parts, and how more of them are started."""

    gateway: Gateway
    lane: Managed
    lane_port: int
    start: Start
    command: Command
    certificate: Issued | None

    def client(self, **options: Any) -> AsyncOpenAI:
        return self.gateway.client(**options)

    def ask_lane(self, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
        """What the lane itself answers, past the gateway."""
        url = f"https://localhost:{self.lane_port}" if self.certificate else f"http://{LOOPBACK}:{self.lane_port}"
        asked = urllib.request.Request(url + path, headers=headers)
        try:
            context = self.certificate.trusting() if self.certificate else None
            with urllib.request.urlopen(asked, timeout=60, context=context) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def another(self) -> Managed:
        """One more lane on the same database and folder."""
        port = free_port()
        env = {**self.command.env, "WEIR_LANE_PORT": str(port)}
        return self.start(Command("lane", self.command.argv, partial(http_ok, port, "/readyz"), env=env))


def a_fleet(url: str, **changes: Any) -> Snapshot:
    """The model of `url`, without a cache."""
    given = a_snapshot()
    pool = Pool(
        MODEL, MODEL, "local", MODEL, "1", (Endpoint("r0", url=url),), protocol="openai", max_concurrency=PLACES
    )
    model = Model(MODEL, (Route(MODEL),), cache=CacheRule("never", coalesce=False))
    return msgspec.structs.replace(
        given, models=(model,), pools=(pool,), tiers=(*given.tiers, Tier("batch", priority=3)), **changes
    )


def start_stack(
    start: Start,
    folder: Path,
    snapshot: Snapshot,
    *,
    database_url: str = "",
    python: tuple[str, ...] = (sys.executable,),
    certificate: Issued | None = None,
    redis_url: str = "",
    otlp: str = "",
    migrated: bool = False,
    **settings: str,
) -> Stack:
    """`settings` are the lane's, and `python` is what runs it. With a `certificate` it speaks TLS. The gateway has `redis_url` and `otlp`.
    `migrated`: the database has its tables.
    """
    lane_port, home = free_port(), folder / "home"
    lane_url = f"https://localhost:{lane_port}" if certificate else f"http://{LOOPBACK}:{lane_port}"
    command, port, path = gateway_command(
        folder, snapshot, redis_url=redis_url, otlp=otlp, lane_url=lane_url, lane_token=TOKEN, home=str(home)
    )
    if certificate:
        command = replace(command, env={**command.env, "SSL_CERT_FILE": str(certificate.certificate)})
        settings |= {"lane_certificate": str(certificate.certificate), "lane_key": str(certificate.key)}
    gateway = Gateway(port, path, start(command), folder / "gateway.log")
    env = {
        "WEIR_HOME": str(home),
        "WEIR_DATABASE_URL": database_url,
        "WEIR_GATEWAY_URL": f"http://{LOOPBACK}:{port}",
        "WEIR_LANE_PORT": str(lane_port),
        "WEIR_LANE_TOKEN": TOKEN,
        **{f"WEIR_{name.upper()}": value for name, value in settings.items()},
    }
    if not (migrated or database_url):
        migrate_home(home)
    elif not migrated:
        migrate = (sys.executable, "manage.py", "migrate", "--no-input", "-v0")
        subprocess.run(migrate, cwd=ROOT, env={**os.environ, **env}, check=True)
    ready = partial(http_ok, lane_port, "/readyz", tls=certificate is not None)
    lane = Command("lane", (*python, "-m", "controlplane.lane"), ready, env=env)
    return Stack(gateway, start(lane), lane_port, start, lane, certificate)


def give_key(env: dict[str, str]) -> None:
    """`KEY` is one of alice, in the database too."""
    code = (
        "from controlplane.fleet.models import *\n"
        f"tenant = Tenant.objects.create(name='alice', tier=Tier.objects.get_or_create(name='standard')[0])\n"
        f"GatewayKey.objects.adopt(tenant, 'topic', {KEY!r})"
    )
    subprocess.run(
        (sys.executable, "manage.py", "shell", "-v0", "-c", code), cwd=ROOT, env={**os.environ, **env}, check=True
    )


def a_line(custom_id: str, text: str, url: str = "/v1/chat/completions", **body: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    return {
        "custom_id": custom_id,
        "method": "POST",
        "url": url,
        "body": {"model": MODEL, "messages": messages, **body},
    }


def jsonl(lines: Iterable[Any]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


async def submit(client: AsyncOpenAI, lines: Iterable[Any], **options: Any) -> Batch:
    file = await client.files.create(file=("in.jsonl", jsonl(lines)), purpose="batch")
    return await client.batches.create(
        input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h", **options
    )


async def ended(client: AsyncOpenAI, batch: Batch) -> Batch:
    latest = batch

    async def is_ended() -> bool:
        nonlocal latest
        latest = await client.batches.retrieve(batch.id)
        return latest.status in ENDED

    await eventually_async(is_ended)
    return latest


async def answered(client: AsyncOpenAI, response: Response) -> Response:
    """A response in the background, once it has ended."""
    latest = response

    async def is_ended() -> bool:
        nonlocal latest
        latest = await client.responses.retrieve(response.id)
        return latest.status not in ("queued", "in_progress")

    await eventually_async(is_ended)
    return latest


async def lines_of(client: AsyncOpenAI, file_id: str | None) -> list[dict[str, Any]]:
    if file_id is None:
        return []
    content = await client.files.content(file_id)
    return [json.loads(line) for line in content.text.splitlines()]
