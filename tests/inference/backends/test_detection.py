"""What a replica is gets found out before it serves, and a server that does not fit gets no requests."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from inference.backends import readiness
from inference.backends.fleet import PoolState
from inference.backends.port import Detected
from inference.backends.replica import Replica
from inference.backends.triton.model import TritonModel
from inference.contract.snapshot import Endpoint, Pool
from inference.core.backend_errors import BackendError, FailedError, UnreachableError
from inference.core.routing.need import ANYTHING
from inference.wires.grpc import Channel
from tests.support.gateway.process import SMALL, Gateway
from tests.support.wait import eventually, eventually_async

VLLM = Detected("vllm", "0.32.0", ("tiny",), 2048)
MISFIT = VLLM._replace(misfit="it does not serve 'chat' but 'tiny': set the pool's model name to one of these")


class Scripted(TritonModel):
    """A model whose probes answer as the test says."""

    def __init__(self, detected: Detected, ready: BackendError | None = None) -> None:
        endpoints = (Endpoint("r0", "127.0.0.1:1"),)
        super().__init__(Channel("127.0.0.1:1", 1.0), Pool("near", "v", "local", "chat", "1", endpoints))
        self.detected, self.failure = detected, ready
        self.detections = 0

    async def ready(self, timeout_s: float) -> bool:
        if self.failure is not None:
            raise self.failure
        return True

    async def detect(self, timeout_s: float) -> Detected:
        self.detections += 1
        return self.detected


def test_of_servers_that_say_different_things_of_a_model_the_shortest_context_counts() -> None:
    def pool(*found: Detected | None) -> Any:
        return SimpleNamespace(replicas=[SimpleNamespace(detected=each) for each in found])

    first, other = ({"id": "a", "max_model_len": length, "x": length} for length in (9, 4))
    pools = [pool(None, VLLM, VLLM._replace(card=first)), pool(VLLM._replace(card=other))]
    assert readiness.card(pools) == {"id": "a", "max_model_len": 4, "x": 9}
    assert readiness.card(pools[:0]) == readiness.card([pool(None, VLLM)]) == {}


async def probed(backend: Scripted, until: Callable[[Replica], bool]) -> Replica:
    """The replica once `until` holds of it."""
    replica = Replica("near", "r0", backend, "link")
    replica.start(0.01, 1.0, 60.0)
    await eventually_async(lambda: until(replica))
    replica.stop()
    return replica


async def test_a_server_that_fits_is_found_out_once() -> None:
    backend = Scripted(VLLM)
    replica = await probed(backend, lambda it: it.health.state == "up" and it.detected is not None)
    assert readiness.server(replica) == {
        "state": "up", "kind": "vllm", "version": "0.32.0", "models": ("tiny",), "context_length": 2048,
    }  # fmt: skip
    assert backend.detections == 1


@pytest.mark.parametrize("failure", [None, FailedError(MISFIT.misfit, "misfit")])
async def test_a_server_that_does_not_fit_stays_down_and_says_why(failure: BackendError | None) -> None:
    replica = await probed(Scripted(MISFIT, failure), lambda it: it.health.failures > 1)
    state = PoolState(Pool("near", "v", "local", "chat", "1", (Endpoint("r0", "127.0.0.1:1"),)), 1.0, lambda _: None)
    state.replicas.append(replica)
    assert not state.available and state.choose(ANYTHING, ()) is None
    said = readiness.pool(state, with_servers=True)["servers"]["r0"]
    assert (said["state"], said["misfit"], said["kind"]) == ("down", MISFIT.misfit, "vllm")
    assert readiness.detected([state]) == {("near", "r0", "vllm", "0.32.0", "", "false"): 1.0}
    assert readiness.pool(state, with_servers=False) == {"ready": 0, "replicas": 1}


async def test_a_server_that_cannot_be_reached_is_not_known() -> None:
    replica = await probed(Scripted(VLLM, UnreachableError("connection refused")), lambda it: it.health.failures > 0)
    assert readiness.server(replica) == {"state": "down", "reason": "unreachable: connection refused"}


def test_a_gateway_says_which_servers_its_replicas_are(gateway: Gateway) -> None:
    eventually(lambda: gateway.ready()["pools"][SMALL]["ready"] == 1)
    server = gateway.ready()["pools"][SMALL]["servers"]["r0"]
    assert (server["state"], server["kind"]) == ("up", "triton")
    assert "servers" not in gateway.get("/readyz", key="", headers={"X-Forwarded-For": "10.0.0.9"})[1]
    assert gateway.metric("weir_gateway_replica_detected", pool=SMALL, kind="triton", fits="true") == 1
