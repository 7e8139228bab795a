"""Puts the launcher's fleet.json into the database.

Missing rows are created and replica addresses are updated. Anything that an owner edited stays as it is.
"""

from pathlib import Path
from typing import Any, TypeVar

import msgspec
from django.core.exceptions import ValidationError
from django.db import models, transaction

from controlplane.fleet.core.local_cluster import ReplicaAddresses
from controlplane.fleet.models import Cluster, LLMModel, Pool, Price, Region, Replica, Team, Variant

Row = TypeVar("Row", bound=models.Model)


POOL_FIELDS = ("protocol", "server", "signature", "mapping", "credential", "max_concurrency", "replica_concurrency")
"""What a new pool takes from the file as it is."""
UNLIMITED_TOKENS = 1 << 20
"""More than any model answers."""
LAUNCHED = models.Q(managed_by=Replica.ManagedBy.LAUNCHER) | models.Q(
    managed_by=Replica.ManagedBy.CLUSTER, pool__cluster__kind=Cluster.Kind.LOCAL
)
"""Replicas that the launcher starts. None of an earlier run is left."""


class SeedReplica(ReplicaAddresses, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As the launcher writes it."""


class SeedCapacity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a replica of a pool carries, on what and at what price: planning enters it for a pool of which it knows nothing."""

    gpu: str
    gpus_per_replica: int
    usd_per_gpu_hour: float
    requests_per_s: float
    slots: int
    cold_start_s: float
    note: str
    input_tokens: float | None = None
    output_tokens: float | None = None


class SeedPrice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    usd_per_1k_prompt_tokens: float
    usd_per_1k_output_tokens: float


class SeedPool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    variant: str
    region: str
    model_name: str
    model_version: str
    replicas: tuple[SeedReplica, ...]
    protocol: str = "triton"
    server: str = "auto"
    signature: str = "weir"
    mapping: dict[str, Any] | None = None
    credential: str = ""
    max_concurrency: int = 64
    replica_concurrency: int = 0
    cluster: str = ""  # the local cluster's name, where the launcher starts and stops replicas at any time
    capacity: SeedCapacity | None = None


class SeedModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    pools: tuple[SeedPool, ...]
    tokenizer: str = "tekken"
    context_tokens: int = 0  # 0 where it is not known
    price: SeedPrice | None = None
    compared_by: str = ""  # an embedder before it: answers of its similar requests are compared, and none is served


class Seed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    models: tuple[SeedModel, ...]


class SeedError(ValueError):
    """Permanent: the file does not describe a fleet. The message has the place and the remedy."""


def read(path: Path) -> Seed:
    """Raises SeedError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Seed)
    except FileNotFoundError:
        raise SeedError(f"{path} does not exist: name the launcher's fleet.json") from None
    except msgspec.DecodeError as error:
        raise SeedError(f"{path} is not a fleet: {error}") from error


@transaction.atomic
def apply_seed(seed: Seed) -> list[str]:
    """Bring the database up to `seed` and say what was done. Raises SeedError, and then nothing was done."""
    try:
        pools = [pool for model in seed.models for pool in model.pools]
        done = _clusters({pool.cluster for pool in pools if pool.cluster})
        done += [line for model in seed.models for line in _model(model)]
        return done + _retire({pool.name for pool in pools})
    except ValidationError as error:
        raise SeedError("; ".join(error.messages)) from error


def _clusters(names: set[str]) -> list[str]:
    """The local cluster is enabled while the launcher runs it."""
    done = []
    for name in sorted(names):
        done += _get_or_make(Cluster, {"kind": Cluster.Kind.LOCAL}, {"name": name})[1]
    for cluster in Cluster.objects.filter(kind=Cluster.Kind.LOCAL).exclude(enabled=bool(names)):
        cluster.enabled = bool(names)
        cluster.save()
        done.append(f"{'enabled' if names else 'disabled'} cluster {cluster}")
    return done


def _model(seed: SeedModel) -> list[str]:
    model, done = _get_or_make(LLMModel, {"name": seed.name}, {"team": first_team(), **_limits(seed), **_similar(seed)})
    if done and seed.price is not None:
        done += _get_or_make(Price, {"model": model}, msgspec.structs.asdict(seed.price))[1]
    for pool in seed.pools:
        variant, made_variant = _get_or_make(Variant, {"name": pool.variant}, {"model": model})
        region, made_region = _get_or_make(Region, {"name": pool.region}, {})
        served, made_pool = _get_or_make(
            Pool,
            {"name": pool.name},
            {
                "variant": variant,
                "region": region,
                "model_name": pool.model_name,
                "model_version": pool.model_version,
                "cluster": Cluster.objects.get(kind=Cluster.Kind.LOCAL) if pool.cluster else None,
                **{name: getattr(pool, name) for name in POOL_FIELDS},
            },
        )
        if not (served.enabled or served.replicas.exists()):  # retired by a run with another fleet
            served.enabled = True
            served.save()
            done.append(f"enabled pool {served}")
        done += made_variant + made_region + made_pool + _replicas(served, pool.replicas)
    return done


def first_team() -> Team:
    """Who owns what comes with a set-up, until somebody says otherwise."""
    return Team.objects.get_or_create(name="serving", defaults={"contact": "#serving-oncall"})[0]


def _limits(seed: SeedModel) -> dict[str, Any]:
    """Of a model whose context is known, the prompt and the answer may each be as long as that: the server judges the sum. Of one
    whose context is not known, servers with OpenAI's API judge the answer's length, which nobody has limited here.
    """
    limits: dict[str, Any] = {"tokenizer": seed.tokenizer, "max_context_tokens": seed.context_tokens}
    if seed.context_tokens:
        limits |= {"max_prompt_tokens": seed.context_tokens, "max_output_tokens": seed.context_tokens}
    elif all(pool.protocol == "openai" for pool in seed.pools):
        limits["max_output_tokens"] = UNLIMITED_TOKENS
    return limits


def _similar(seed: SeedModel) -> dict[str, Any]:
    if not seed.compared_by:
        return {}
    embedder = LLMModel.objects.filter(name=seed.compared_by).first()
    return {"semantic_mode": LLMModel.SemanticMode.SHADOW, "semantic_embedder": embedder, "semantic_other_words": True}


def _retire(pools: set[str]) -> list[str]:
    """Remove the launcher's replicas of all other pools, which run no longer, and disable pools that have none left."""
    done = []
    launched = Replica.objects.filter(LAUNCHED)
    for pool in Pool.objects.filter(replicas__in=launched).exclude(name__in=pools).distinct():
        done += _replicas(pool, ())
        if not pool.replicas.exists():
            pool.enabled = False
            pool.save()
            done.append(f"disabled pool {pool}, because its servers are not started")
    return done


def _replicas(pool: Pool, seeds: tuple[SeedReplica, ...]) -> list[str]:
    """The launcher's replicas of `pool` become exactly `seeds`; an owner's own replicas are left alone."""
    done = []
    launched = {replica.name: replica for replica in pool.replicas.filter(LAUNCHED)}
    for name in launched.keys() - {seed.name for seed in seeds}:
        launched.pop(name).delete()
        done.append(f"removed replica {pool.name}/{name}")
    for seed in seeds:
        addresses = msgspec.to_builtins(seed) | {"draining": False}  # what an earlier process of this name did is over
        del addresses["name"]
        replica = launched.get(seed.name)
        if replica is None:
            managed_by = Replica.ManagedBy.CLUSTER if pool.cluster else Replica.ManagedBy.LAUNCHER
            done += _get_or_make(Replica, {"pool": pool, "name": seed.name}, addresses | {"managed_by": managed_by})[1]
        elif any(getattr(replica, field) != address for field, address in addresses.items()):
            for field, address in addresses.items():
                setattr(replica, field, address)
            replica.clean_fields()  # not clean(): another replica, which is moved next, may still have this address
            replica.save()
            done.append(f"moved replica {replica} to {seed.grpc or seed.url}")
    return done


def _get_or_make(kind: type[Row], identity: dict[str, Any], defaults: dict[str, Any]) -> tuple[Row, list[str]]:
    row = kind._default_manager.filter(**identity).first()
    if row is not None:
        return row, []
    row = kind(**identity, **defaults)
    row.full_clean()
    row.save()
    return row, [f"made {kind._meta.verbose_name} {row}"]
