"""Puts the launcher's fleet.json into the database.

Missing rows are created and replica addresses are updated. Anything that an owner edited stays as it is.
"""

from pathlib import Path
from typing import Any, TypeVar

import msgspec
from django.core.exceptions import ValidationError
from django.db import models, transaction

from controlplane.fleet.models import LLMModel, Pool, Region, Replica, Variant

Row = TypeVar("Row", bound=models.Model)


class SeedReplica(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    grpc: str
    http: str = ""
    metrics: str = ""


class SeedPool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    variant: str
    region: str
    model_name: str
    model_version: str
    replicas: tuple[SeedReplica, ...]


class SeedModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    pools: tuple[SeedPool, ...]


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
def sow(seed: Seed) -> list[str]:
    """Bring the database up to `seed` and say what was done. Raises SeedError, and then nothing was done."""
    try:
        return [line for model in seed.models for line in _model(model)]
    except ValidationError as error:
        raise SeedError("; ".join(error.messages)) from error


def _model(seed: SeedModel) -> list[str]:
    model, done = _get_or_make(LLMModel, {"name": seed.name}, {})
    for pool in seed.pools:
        variant, made_variant = _get_or_make(Variant, {"name": pool.variant}, {"model": model})
        region, made_region = _get_or_make(Region, {"name": pool.region}, {})
        served, made_pool = _get_or_make(
            Pool,
            {"name": pool.name},
            {"variant": variant, "region": region, "model_name": pool.model_name, "model_version": pool.model_version},
        )
        done += made_variant + made_region + made_pool + _replicas(served, pool.replicas)
    return done


def _replicas(pool: Pool, seeds: tuple[SeedReplica, ...]) -> list[str]:
    """The launcher's replicas of `pool` become exactly `seeds`; an owner's own replicas are left alone."""
    done = []
    launched = {replica.name: replica for replica in pool.replicas.filter(managed_by=Replica.ManagedBy.LAUNCHER)}
    for name in launched.keys() - {seed.name for seed in seeds}:
        launched.pop(name).delete()
        done.append(f"removed replica {pool.name}/{name}")
    for seed in seeds:
        addresses = {"grpc": seed.grpc, "http": seed.http, "metrics": seed.metrics}
        replica = launched.get(seed.name)
        if replica is None:
            done += _get_or_make(
                Replica, {"pool": pool, "name": seed.name}, addresses | {"managed_by": Replica.ManagedBy.LAUNCHER}
            )[1]
        elif any(getattr(replica, field) != address for field, address in addresses.items()):
            for field, address in addresses.items():
                setattr(replica, field, address)
            replica.clean_fields()  # not clean(): another replica, which is moved next, may still have this address
            replica.save()
            done.append(f"moved replica {replica} to {seed.grpc}")
    return done


def _get_or_make(kind: type[Row], identity: dict[str, Any], defaults: dict[str, Any]) -> tuple[Row, list[str]]:
    row = kind._default_manager.filter(**identity).first()
    if row is not None:
        return row, []
    row = kind(**identity, **defaults)
    row.full_clean()
    row.save()
    return row, [f"made {kind._meta.verbose_name} {row}"]
