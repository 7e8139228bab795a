"""What the gateway bench measures: each target started as a user would start it, on one worker."""

import json
import secrets
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from deploy.local.redis import Redis
from inference.contract.snapshot import Endpoint, GuardRule, Model, Pool, Route, Snapshot, Tenant, Tier, key_digest
from tests.bench.compared.environments import bin_folder
from tests.bench.loads.http_load import Http
from tests.bench.processes import Child, free_port, start, start_gateway, start_redis

MODEL = "chat-small"
TOKENS = 8
"""How long every answer is. A unary upstream sends them as one body; Triton sends each in its own response."""

_PROMPT = (
    "You are the assistant of an on-call engineer. Explain in one sentence why the queue of the model pool grew, "
    "given that the arrival rate doubled at 14:02 and one replica was drained at 14:03. Request "
)


@dataclass(frozen=True)
class Target:
    """`hit` is None where the target has no cache. `direct` names the upstream whose own time is taken off."""

    name: str
    child: Child
    port: int
    miss: Http
    stream: Http
    hit: Http | None = None
    direct: str = "direct_http"


def body(serial: int | None, stream: bool = False) -> bytes:
    """A deterministic, so cacheable, chat request; unique with a `serial`, always the same without."""
    return json.dumps(
        {
            "model": MODEL,
            "messages": [
                {"role": "system", "content": "Answer briefly."},
                {"role": "user", "content": _PROMPT + ("0" * 12 if serial is None else f"{serial:012d}")},
            ],
            "temperature": 0,
            "max_tokens": TOKENS,
            "stream": stream,
        }
    ).encode()


def wires(key: str, run: int) -> tuple[Http, Http, Http]:
    """Miss, hit and stream. No request of a run is repeated but the hit's: `run` sets runs and targets apart."""
    base = run * 10**8
    streams = base + 5 * 10**7
    return (
        Http(lambda serial: body(base + serial + 1), key=key),
        Http(lambda _: body(None), key=key),
        Http(lambda serial: body(streams + serial, stream=True), key=key),
    )


@dataclass(frozen=True)
class Bed:
    """Where targets run: their files, their Redis and upstreams, and what stops them."""

    folder: Path
    stack: ExitStack
    redis: Redis
    triton_port: int
    upstream_port: int

    def start(
        self, name: str, command: list[str], port: int = 0, env: dict[str, str] | None = None, wait_s: float = 60
    ) -> Child:
        return start(self.stack, name, command, self.folder, env, port=port, wait_s=wait_s)


def bed(folder: Path, stack: ExitStack) -> Bed:
    """Redis 8 and both upstreams, started and answering."""
    triton, upstream = free_port(), free_port()
    made = Bed(folder, stack, start_redis(stack, folder), triton, upstream)
    made.start("triton-standin", [sys.executable, "-m", "tests.bench.standins.triton", str(triton)], triton)
    made.start(
        "upstream", [sys.executable, "-m", "tests.bench.standins.upstream", str(upstream), str(TOKENS)], upstream
    )
    return made


def bare(bed: Bed) -> Target:
    port = free_port()
    command = [str(Path(sys.executable).with_name("granian")), "--interface", "rsgi", "--loop", "uvloop", "--no-ws"]
    command += ["--workers", "1", "--host", "127.0.0.1", "--port", str(port), "tests.bench.standins.proxy:app"]
    child = bed.start("bare", command, port, {"BENCH_UPSTREAM": f"http://127.0.0.1:{bed.upstream_port}"})
    miss, _, stream = wires("", 1)
    return Target("bare", child, port, miss, stream)


def litellm(bed: Bed) -> Target | None:
    """LiteLLM's proxy, one worker: key check on, answers cached in the same Redis; no tracing, no database."""
    folder = bin_folder("bench")
    if folder is None:
        return None
    port, key = free_port(), "sk-" + secrets.token_urlsafe(24)
    config = bed.folder / "litellm.yaml"
    upstream = {"model": f"openai/{MODEL}", "api_base": f"http://127.0.0.1:{bed.upstream_port}/v1", "api_key": "none"}
    redis = {"type": "redis", "host": "127.0.0.1", "port": bed.redis.port, "password": bed.redis.password, "ttl": 3600}
    config.write_text(
        json.dumps(
            {
                "model_list": [{"model_name": MODEL, "litellm_params": upstream}],
                "litellm_settings": {"cache": True, "cache_params": redis, "telemetry": False},
                "general_settings": {"master_key": key},
            }
        )
    )
    command = [
        str(folder / "litellm"),
        "--config",
        str(config),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--num_workers",
        "1",
    ]
    env = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR", "NO_PROXY": "127.0.0.1"}
    child = bed.start("litellm", command, port, env, wait_s=180)
    miss, hit, stream = wires(key, 2)
    return Target("litellm", child, port, miss, stream, hit)


def weir(
    bed: Bed,
    name: str = "weir",
    command: Sequence[str] = (),
    extra: Mapping[str, str] | None = None,
    guards: tuple[GuardRule, ...] = (),
) -> Target:
    """The gateway as `make run` starts it, with spans really sent: the upstream stand-in takes OTLP too.

    `command` is another server for its application, which gets `--port` appended. `guards` are of the tenant `bench`.
    """
    endpoint = Endpoint("standin-0", f"127.0.0.1:{bed.triton_port}")
    pool = Pool("standin", MODEL, "local", MODEL, "1", endpoints=(endpoint,))
    return _weir(bed, name, pool, "direct_grpc", command, extra, guards)


def weir_openai(bed: Bed, name: str = "openai", guards: tuple[GuardRule, ...] = (), upstream_port: int = 0) -> Target:
    """The same in front of the upstream that the proxies have, or another of its kind, over OpenAI's API."""
    endpoint = Endpoint("standin-0", url=f"http://127.0.0.1:{upstream_port or bed.upstream_port}/v1")
    pool = Pool("standin", MODEL, "local", MODEL, "", endpoints=(endpoint,), protocol="openai")
    return _weir(bed, name, pool, "direct_http", guards=guards)


def _weir(
    bed: Bed,
    name: str,
    pool: Pool,
    direct: str,
    command: Sequence[str] = (),
    extra: Mapping[str, str] | None = None,
    guards: tuple[GuardRule, ...] = (),
) -> Target:
    key = "weir-" + secrets.token_urlsafe(32)
    policy = Snapshot(
        version=1,
        models=(Model(MODEL, routes=(Route("standin"),)),),
        pools=(pool,),
        tiers=(Tier("standard"),),
        tenants=(Tenant("bench", "standard", (key_digest(key),)),),
        guards=guards,
    )
    env = {
        "WEIR_REDIS_URL": bed.redis.url,
        "WEIR_OTLP_ENDPOINT": f"http://127.0.0.1:{bed.upstream_port}",
        **(extra or {}),
    }
    port, child = start_gateway(bed.stack, name, policy, bed.folder, env, command)
    miss, hit, stream = wires(key, 3 if pool.protocol == "triton" else 4)
    return Target(name, child, port, miss, stream, hit, direct)
