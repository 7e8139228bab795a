"""A real API server behind a proxy that refuses, hangs, cuts and loses answers."""

from contextlib import closing
from pathlib import Path

import pytest

from controlplane.fleet.clusters.errors import ThrottledError, UnreachableError
from controlplane.fleet.clusters.kubernetes import watch
from controlplane.fleet.clusters.kubernetes.watch import WATCH_S
from controlplane.fleet.clusters.port import GpusSeen
from tests.support.cluster.control_plane import GPU
from tests.support.cluster.namespace import Namespace
from tests.support.cluster.objects import deployment, gpu_quota
from tests.support.cluster.opened import opened, wait_for
from tests.support.cluster.proxy import DROP, HANG, LOSE_ANSWER, Proxy, Request, everything, watches, writes
from tests.support.cluster.rehearsed import controllers_way
from tests.support.wait import eventually


def test_a_watch_that_is_cut_goes_on_where_it_ended(hollow: Namespace, proxy: Proxy, tmp_path: Path) -> None:
    hollow.create(deployment("chat", 1))
    with opened(proxy.kubeconfig(tmp_path), hollow.name, "chat") as near:
        wait_for(near, "chat", lambda pool: len(pool.replicas) == 1)
        eventually(lambda: near.seen().watching)
        lists = len(listed(proxy, hollow))
        with proxy.fault(watches, DROP):
            proxy.cut_watches()
            eventually(lambda: not near.seen().watching)
            hollow.set_count("chat", 3)
            hollow.has_pods("chat", 3)
            assert near.seen().pools["chat"].wanted == 1
        wait_for(near, "chat", lambda pool: pool.wanted == 3 and len(pool.replicas) == 3)
        assert len(listed(proxy, hollow)) == lists


def listed(proxy: Proxy, hollow: Namespace) -> list[Request]:
    return [request for request in proxy.requests if request.path.endswith(f"{hollow.name}/pods") and not request.watch]


def test_a_history_that_has_expired_is_listed_anew(hollow: Namespace, proxy: Proxy, tmp_path: Path) -> None:
    hollow.create(deployment("chat", 1))
    with opened(proxy.kubeconfig(tmp_path), hollow.name, "chat") as near:
        wait_for(near, "chat", lambda pool: len(pool.replicas) == 1)
        lists = len(listed(proxy, hollow))
        with proxy.fault(watches, DROP):
            proxy.cut_watches()
            eventually(lambda: not near.seen().watching)
            hollow.apps.delete_namespaced_deployment("chat", hollow.name)
            hollow.has_pods("chat", 0)
            with proxy.fault(watches_pods, 410, times=1) as expired:
                eventually(lambda: expired.hits == 1)
                eventually(lambda: len(listed(proxy, hollow)) > lists)
        wait_for(near, "chat", lambda pool: "There is no Deployment" in pool.problem)


def test_what_was_seen_of_another_server_is_not_taken_for_this_ones(
    hollow: Namespace, proxy: Proxy, tmp_path: Path
) -> None:
    """The kubeconfig leads to another one from now on: its history is another, whatever its versions are called."""
    assert hollow.plane
    hollow.create(deployment("chat", 1))
    other = Proxy(hollow.plane)
    path = proxy.kubeconfig(tmp_path)
    with closing(other), opened(path, hollow.name, "chat") as near:
        wait_for(near, "chat", lambda pool: len(pool.replicas) == 1)
        path.write_text(other.kubeconfig(tmp_path).read_text())
        proxy.cut_watches()
        eventually(lambda: len(listed(other, hollow)) == 1)
        hollow.set_count("chat", 2)
        wait_for(near, "chat", lambda pool: len(pool.replicas) == 2)


def watches_pods(request: Request) -> bool:
    return request.watch and request.path.endswith("/pods") and "/namespaces/" in request.path


def test_a_server_that_does_not_answer_makes_the_state_old_and_never_empty(
    hollow: Namespace, proxy: Proxy, tmp_path: Path
) -> None:
    hollow.create(deployment("chat", 2))
    with opened(proxy.kubeconfig(tmp_path), hollow.name, "chat") as near:
        wait_for(near, "chat", lambda pool: len(pool.replicas) == 2)
        with proxy.fault(everything, 503):
            proxy.cut_watches()
            eventually(lambda: (near.seen().age_ms or 0) > 2500)
            seen = near.seen()
            assert len(seen.pools["chat"].replicas) == 2 and not seen.watching
            assert "503" in seen.problem
            with pytest.raises(UnreachableError):
                near.scale("chat", 3, token=seen.pools["chat"].token, generation=1)
        eventually(lambda: near.seen().watching and (near.seen().age_ms or 0) < 3000 and near.seen().problem == "")
        near.scale("chat", 3, token=near.seen().pools["chat"].token, generation=1)
        assert hollow.count("chat") == 3


def test_what_may_not_be_read_stays_so_while_the_server_fails_and_the_rest_is_known(
    hollow: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes are optional. That they do not answer says nothing of the replicas."""
    monkeypatch.setattr(watch, "REFUSED_RETRY_S", 0.2)
    hollow.create(deployment("chat", 1))
    with (
        controllers_way(hollow) as proxy,
        opened(proxy.kubeconfig(tmp_path), hollow.name, "chat") as near,
        proxy.fault(lambda request: request.path == "/api/v1/nodes", 403),
    ):
        wait_for(near, "chat", lambda pool: len(pool.replicas) == 1)
        with proxy.fault(lambda request: request.path == "/api/v1/nodes", 503) as failing:
            eventually(lambda: failing.hits >= 3)
            assert (near.seen().problem, near.seen().age_ms is not None) == ("", True)


def test_a_quota_that_may_no_longer_be_read_is_forgotten_and_one_whose_reader_has_no_credentials_is_not(
    hollow: Namespace, tmp_path: Path
) -> None:
    """What it was is no quota of now: it would keep replicas away for ever, or let them be asked for."""
    hollow.create(deployment("chat", 1), gpu_quota("few", 1))

    def of_quotas(request: Request) -> bool:
        return request.path.endswith("/resourcequotas")

    with (
        controllers_way(hollow) as proxy,
        opened(proxy.kubeconfig(tmp_path), hollow.name, "chat") as near,
    ):
        eventually(lambda: near.seen().gpus.get(GPU) == GpusSeen(1, 0, waiting_too=True))
        with proxy.fault(of_quotas, 401) as ended:
            proxy.cut_watches()
            eventually(lambda: ended.hits >= 1 and "401" in near.seen().problem)
            assert near.seen().gpus.get(GPU) == GpusSeen(1, 0, waiting_too=True)
        eventually(lambda: near.seen().problem == "" and near.seen().watching)
        with proxy.fault(of_quotas, 403):
            proxy.cut_watches()
            eventually(lambda: near.seen().gpus == {}, lambda: near.seen())
            assert near.seen().problem == ""


def test_a_server_that_hangs_is_noticed_by_its_silence(hollow: Namespace, proxy: Proxy, tmp_path: Path) -> None:
    hollow.create(deployment("chat", 1))
    with opened(proxy.kubeconfig(tmp_path), hollow.name, "chat", call_s=1.0) as near:
        pool = wait_for(near, "chat", lambda pool: len(pool.replicas) == 1)
        with proxy.fault(everything, HANG):
            with pytest.raises(UnreachableError, match="no answer"):
                near.scale("chat", 3, token=pool.token, generation=1)
            eventually(lambda: not near.seen().watching and (near.seen().age_ms or 0) > 1500, within_s=WATCH_S)
        wait_for(near, "chat", lambda pool: near.seen().watching)


def test_a_throttled_write_says_when_to_come_back_and_writes_nothing(
    hollow: Namespace, proxy: Proxy, tmp_path: Path
) -> None:
    hollow.create(deployment("chat", 1))
    with opened(proxy.kubeconfig(tmp_path), hollow.name, "chat") as near:
        pool = wait_for(near, "chat", lambda pool: pool.wanted == 1)
        with proxy.fault(writes, 429, Retry_After="7"), pytest.raises(ThrottledError) as throttled:
            near.scale("chat", 3, token=pool.token, generation=1)
        assert throttled.value.retry_after_s == 7
        assert hollow.count("chat") == 1


def test_a_server_that_has_too_much_to_do_is_left_alone_as_long_as_it_says(
    hollow: Namespace, proxy: Proxy, tmp_path: Path
) -> None:
    hollow.create(deployment("chat", 1))
    with opened(proxy.kubeconfig(tmp_path), hollow.name, "chat") as near:
        wait_for(near, "chat", lambda pool: pool.wanted == 1)
        with proxy.fault(everything, 429, Retry_After="20"):
            proxy.cut_watches()
            before = len(proxy.requests)
            eventually(lambda: (near.seen().age_ms or 0) > 5_000)
            asked = [(request.path, request.watch) for request in proxy.requests[before:]]
            assert len(asked) == len(set(asked)) and "429" in near.seen().problem


def test_a_write_whose_answer_is_lost_is_written_once(hollow: Namespace, proxy: Proxy, tmp_path: Path) -> None:
    hollow.create(deployment("chat", 1))
    with opened(proxy.kubeconfig(tmp_path), hollow.name, "chat") as near:
        near.claim(1, ["chat"])
        pool = wait_for(near, "chat", lambda pool: pool.wanted == 1 and pool.token.split("/")[2] == "1")
        before = len(of_counts(proxy))
        with proxy.fault(writes, LOSE_ANSWER, times=1) as lost, pytest.raises(UnreachableError):
            near.scale("chat", 3, token=pool.token, generation=1)
        assert lost.hits == 1
        assert hollow.count("chat") == 3
        pool = wait_for(near, "chat", lambda pool: pool.wanted == 3)  # looking again says that it counted
        assert pool.owner_of_count == "weir"
        assert len(of_counts(proxy)) == before + 1


def of_counts(proxy: Proxy) -> list[Request]:
    """The counts that the API server has taken. One that comes just after a change of the status is refused, and written again."""
    return [request for request, status in proxy.answers if request.path.endswith("/scale") and status < 400]
