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
CLUSTER = "local"
REPLICA_CONCURRENCY = 2
"""What a replica works on (`max_sequences` of its model). The rest waits in the gateway, where the tiers' priorities hold."""
CONFIG = "local"
"""Of the models (`models/repository/*/configs`): small replicas, which a burst of generated traffic fills."""


def pools(replicas: int, otlp_endpoint: str, region_prefix: str, env: Mapping[str, str]) -> list[PoolPlan]:
    """A pool for each model, with so many replicas at the start: a Triton each. `env` is every process's.

    Raises FileNotFoundError where Triton is not installed.
    """
    installation()
    return [
        PoolPlan(_pool_name(model), replicas, partial(_server, served, otlp_endpoint, region_prefix, env))
        for model, served in MODELS.items()
    ]


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
            {"name": model, "pools": [_pool(model, served, by_name[_pool_name(model)])]}
            for model, served in MODELS.items()
        ]
    }


def _pool(model: str, served: str, pool: LocalPool) -> dict[str, object]:
    return {
        "name": pool.name,
        "variant": model,
        "region": "local",
        "model_name": served,
        "model_version": "1",
        "replica_concurrency": REPLICA_CONCURRENCY,
        "cluster": CLUSTER,
        "replicas": [
            {"name": replica.name, "grpc": replica.grpc, "http": replica.http, "metrics": replica.metrics}
            for replica in pool.replicas
        ],
    }
