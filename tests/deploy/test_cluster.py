"""The local cluster as the control plane has it: supervisor, API and client, over processes that really start and stop."""

import http.client
import re
import signal
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from controlplane.fleet.clusters.errors import ForbiddenError, InvalidError, UnreachableError
from controlplane.fleet.clusters.local import LocalCluster
from controlplane.fleet.clusters.port import PoolSeen, ReplicaSeen
from deploy.local.cluster.api import Handler
from deploy.local.ports import LOOPBACK
from tests.support.deploy.launched_cluster import TOKEN, Launched, launched
from tests.support.wait import eventually

POOLS = ("chat", "other")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launched]:
    with launched(tmp_path_factory.mktemp("cluster"), slots=6, chat=2, other=1) as run:
        yield run


@pytest.fixture
def local(run: Launched) -> Iterator[LocalCluster]:
    """With two replicas in `chat` and one in `other`, all ready."""
    local = run.client(*POOLS)
    eventually(lambda: local.seen().watching)
    for pool, count in zip(POOLS, (2, 1), strict=True):
        scale(local, pool, count)
        eventually(lambda pool=pool, count=count: ready(local, pool) == count == len(chat(local, pool).replicas))
    yield local
    local.close()


def chat(local: LocalCluster, pool: str = "chat") -> PoolSeen:
    return local.seen().pools[pool]


def ready(local: LocalCluster, pool: str = "chat") -> int:
    return sum(replica.ready for replica in chat(local, pool).replicas)


def scale(local: LocalCluster, pool: str, count: int) -> None:
    local.scale(pool, count, token="", generation=1)
    eventually(lambda: chat(local, pool).wanted == count)


def names(replicas: tuple[ReplicaSeen, ...]) -> set[str]:
    return {replica.name for replica in replicas}


def answers(replica: ReplicaSeen) -> bool:
    connection = http.client.HTTPConnection(replica.address.removeprefix("http://").removesuffix("/v1"), timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def process_of(replica: ReplicaSeen, run: Launched) -> psutil.Process:
    port = replica.address.removesuffix("/v1").rpartition(":")[2]
    return next(child for child in psutil.Process(run.process.pid).children() if port in child.cmdline())


def test_a_replica_starts_gets_ready_and_ends(local: LocalCluster) -> None:
    before = names(chat(local).replicas)
    scale(local, "chat", 3)
    eventually(lambda: ready(local) == 3)
    (fresh,) = (replica for replica in chat(local).replicas if replica.name not in before)
    assert answers(fresh)
    scale(local, "chat", 2)
    eventually(lambda: names(chat(local).replicas) == before)  # of equals the newest goes
    assert not answers(fresh)


def test_the_preferred_replica_goes_first_and_its_name_is_not_used_again(local: LocalCluster) -> None:
    oldest, other = sorted(chat(local).replicas, key=lambda replica: replica.created_ms)
    local.prefer_removal("chat", [oldest.name], generation=1)
    scale(local, "chat", 1)
    eventually(lambda: names(chat(local).replicas) == {other.name})
    scale(local, "chat", 2)
    eventually(lambda: ready(local) == 2)
    assert oldest.name not in names(chat(local).replicas)


def test_what_is_ending_is_said_to_be(run: Launched, local: LocalCluster) -> None:
    victim = chat(local, "other").replicas[0]
    process = process_of(victim, run)
    process.send_signal(signal.SIGSTOP)  # so that SIGTERM waits
    scale(local, "other", 0)
    eventually(lambda: [replica.terminating for replica in chat(local, "other").replicas] == [True])
    process.send_signal(signal.SIGCONT)
    eventually(lambda: not chat(local, "other").replicas)


@pytest.mark.parametrize(
    ("pool", "count", "says"),
    [("nobody", 1, "there is no pool nobody"), ("chat", -1, ">= 0 - at `$.replicas`"), ("chat", 65, "<= 64")],
)
def test_what_cannot_be_is_refused_with_the_remedy(local: LocalCluster, pool: str, count: int, says: str) -> None:
    with pytest.raises(InvalidError, match=re.escape(says)):
        local.scale(pool, count, token="", generation=1)
    with pytest.raises(InvalidError, match="no replica chat-99"):
        local.prefer_removal("chat", ["chat-99"], generation=1)


def test_a_pool_that_is_not_launched_is_named(run: Launched) -> None:
    local = run.client("chat", "nobody")
    eventually(lambda: local.seen().watching)
    assert "starts no replicas of nobody" in chat(local, "nobody").problem
    assert not chat(local).problem
    local.close()


def test_a_hand_that_sets_the_count_is_noticed(run: Launched, local: LocalCluster) -> None:
    connection = http.client.HTTPConnection(run.url.removeprefix("http://"))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    connection.request("PUT", "/v1/pools/chat/scale", b'{"replicas": 3}', headers)
    assert connection.getresponse().status == 200
    eventually(lambda: chat(local).owner_of_count == "hand")
    assert chat(local).wanted == 3
    scale(local, "chat", 3)  # the same count, by Weir
    eventually(lambda: chat(local).owner_of_count == "weir")


def test_without_the_token_nothing_is_said_or_done(run: Launched) -> None:
    stranger = run.client("chat", token="guessed")
    with pytest.raises(ForbiddenError):
        stranger.scale("chat", 0, token="", generation=1)
    eventually(lambda: "cluster-token" in stranger.seen().problem)
    assert not stranger.seen().pools
    stranger.close()


def test_a_replica_without_a_slot_waits_and_says_why(local: LocalCluster) -> None:
    scale(local, "chat", 6)
    eventually(lambda: ready(local) == 5)
    (waiting,) = (replica for replica in chat(local).replicas if not replica.ready)
    assert "all 6 slots of this machine are taken" in waiting.pending_reason
    assert waiting.pending_since_ms == waiting.created_ms
    gpus = local.seen().gpus["slots"]
    assert (gpus.allocatable, gpus.requested) == (6, 6)
    scale(local, "other", 0)
    eventually(lambda: ready(local) == 6)


def test_a_replica_that_dies_comes_back_under_its_name(run: Launched, local: LocalCluster) -> None:
    before = names(chat(local).replicas)
    process_of(chat(local).replicas[0], run).kill()
    eventually(lambda: ready(local) == 1)
    eventually(lambda: ready(local) == 2)
    assert names(chat(local).replicas) == before


def test_replicas_that_cannot_start_end_nothing_else(run: Launched, local: LocalCluster) -> None:
    never = run.output.with_name("never")
    never.touch()
    before = names(chat(local).replicas)
    scale(local, "chat", 3)
    eventually(lambda: "ended with status 3: starting it again in 2 s" in run.output.read_text())
    never.unlink()
    scale(local, "chat", 2)
    eventually(lambda: names(chat(local).replicas) == before)  # the one that is not ready goes
    assert ready(local) == 2


def test_what_it_cannot_do_is_said(local: LocalCluster) -> None:
    with pytest.raises(InvalidError, match="HorizontalPodAutoscaler"):
        local.raise_floor("chat", 1, generation=1)
    with pytest.raises(InvalidError, match="no manifests"):
        local.apply([], dry_run=True)


def test_without_a_launcher_that_is_said() -> None:
    local = LocalCluster("local", "", "")
    local.bind([])
    assert "No launcher runs here" in local.seen().problem
    with pytest.raises(InvalidError, match="make run"):
        local.scale("chat", 1, token="", generation=1)


def test_a_launcher_that_is_away_leaves_an_old_state_that_says_so(tmp_path: Path) -> None:
    with launched(tmp_path, chat=1) as run:
        local = run.client("chat")
        eventually(lambda: ready(local) == 1 if local.seen().pools else False)
        run.process.terminate()
        eventually(lambda: "does not answer" in local.seen().problem)
        seen = local.seen()
        assert not seen.watching
        assert seen.pools["chat"].wanted == 1
        eventually(lambda: (local.seen().age_ms or 0) > (seen.age_ms or 0))
        with pytest.raises(UnreachableError):
            local.scale("chat", 2, token="", generation=1)
        local.close()


def test_a_caller_that_was_ended_is_no_error_to_be_shown() -> None:
    """At Ctrl-C all parts end at once, and nothing of it is news."""
    with socket.create_server((LOOPBACK, 0)) as listening, socket.create_connection(listening.getsockname()) as caller:
        accepted, address = listening.accept()
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        caller.close()  # with a reset
        Handler(accepted, address, listening)  # type: ignore[arg-type]
        accepted.close()
