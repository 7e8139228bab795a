"""The demo models' pools in the local cluster: how a replica of each is started, and `run/fleet.json` for `manage.py bootstrap --fleet`."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from controlplane.fleet.core.local_cluster import LocalPool, LocalState
from deploy.local.cluster.replicas import PoolPlan, Server
from deploy.local.ports import free_ports
from deploy.local.supervisor import Part
from deploy.local.triton import installation, triton

MODELS = {"chat-large": "chat_large", "chat-small": "chat_small"}
"""The name that clients send, and Triton's name of the model."""
EMBEDDER, COMPARED = "lexical-not-semantic", "chat-small"
"""The model that makes vectors, whose name says on each screen what it is (`models/lexical.py`), and the one whose similar requests are
compared by them.
"""
ALL_MODELS = {EMBEDDER: "lexical", **MODELS}
CLUSTER = "local"
REPLICA_CONCURRENCY = 3
"""What a replica works on (`max_sequences` of its model). The rest waits in the gateway, where the tiers' priorities hold."""
CAPACITIES = {
    "chat-large": {"gpu": "h100-80gb", "usd_per_gpu_hour": 3.0, "requests_per_s": 0.8},
    "chat-small": {"gpu": "a100-80gb", "usd_per_gpu_hour": 1.5, "requests_per_s": 2.5},
}
"""The GPU whose times a replica has, four of it each (`models/timing.py`), what it would cost, and how many of the demo's requests a
replica carries. tests/controlplane/test_untouched_demo.py holds them against the simulator.
"""
OF_ALL = {
    "gpus_per_replica": 4,
    "input_tokens": 400.0,
    "output_tokens": 60.0,
    "slots": REPLICA_CONCURRENCY,
    "cold_start_s": 5.0,
    "note": "Of demo replicas, which only take the time of a GPU. The price is an example.",
}
PRICES = {
    "chat-large": {"usd_per_1k_prompt_tokens": 0.004, "usd_per_1k_output_tokens": 0.06},
    "chat-small": {"usd_per_1k_prompt_tokens": 0.0006, "usd_per_1k_output_tokens": 0.01},
    EMBEDDER: {"usd_per_1k_prompt_tokens": 0.00002, "usd_per_1k_output_tokens": 0.0},
}
VECTORS = {
    "signature": "mapping",
    "mapping": {
        "inputs": [{"name": "text", "datatype": "BYTES", "value": "prompt"}],
        "outputs": [{"name": "embedding", "datatype": "FP32", "value": "embedding"}],
    },
    "capacity": {
        "gpu": "cpu",
        "gpus_per_replica": 0,
        "usd_per_gpu_hour": 0.0,
        "requests_per_s": 50.0,
        "slots": 64,
        "cold_start_s": 5.0,
        "note": "This model needs no GPU, so plans count none. What it carries is an example.",
    },
}
"""Of the pool that makes vectors."""
CONFIG = "local"
"""Of the models (`models/repository/*/configs`): small replicas, which a burst of generated traffic fills."""


def pools(replicas: int, otlp_endpoint: str, region_prefix: str, env: Mapping[str, str]) -> list[PoolPlan]:
    """A pool for each chat model, with so many replicas at the start, a Triton each; and one with a Triton that makes vectors. `env` is
    every process's.

    Raises FileNotFoundError where Triton is not installed.
    """
    installation()
    return [
        PoolPlan(
            _pool_name(model),
            replicas if model in MODELS else 1,
            partial(_server, served, otlp_endpoint, region_prefix, env),
        )
        for model, served in ALL_MODELS.items()
    ]


def at_start(replicas: int) -> int:
    """How many Tritons all pools have then."""
    return len(MODELS) * replicas + 1


def _pool_name(model: str) -> str:
    return f"{model}-local"


def _server(served: str, otlp_endpoint: str, region_prefix: str, env: Mapping[str, str], name: str) -> Server:
    grpc, http, metrics = free_ports(3)
    replica = triton(
        (grpc, http, metrics),
        name=name,
        models=(served,),
        otlp_endpoint=otlp_endpoint,
        config=CONFIG,
        region_prefix=f"{region_prefix}{name}_",
    )
    part = Part(replace(replica.command, env={**replica.command.env, **env}))
    return Server(part, {"grpc": replica.grpc, "http": replica.http, "metrics": replica.metrics})


def fleet(state: LocalState) -> dict[str, Any]:
    """The pools with the replicas that they start with."""
    by_name = {pool.name: pool for pool in state.pools}
    return {
        "models": [
            {
                "name": model,
                "price": PRICES[model],
                "compared_by": EMBEDDER if model == COMPARED else "",
                "pools": [_pool(model, served, by_name[_pool_name(model)])],
            }
            for model, served in ALL_MODELS.items()
        ]
    }


def _pool(model: str, served: str, pool: LocalPool) -> dict[str, object]:
    return {
        "name": pool.name,
        "variant": model,
        "region": "local",
        "model_name": served,
        "model_version": "1",
        "cluster": CLUSTER,
        **(_of_chat(model) if model in MODELS else VECTORS),
        "replicas": [
            {"name": replica.name, "grpc": replica.grpc, "http": replica.http, "metrics": replica.metrics}
            for replica in pool.replicas
        ],
    }


def _of_chat(model: str) -> dict[str, object]:
    return {"replica_concurrency": REPLICA_CONCURRENCY, "capacity": OF_ALL | CAPACITIES[model]}
