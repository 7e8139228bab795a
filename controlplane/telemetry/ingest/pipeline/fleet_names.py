"""Gives requests whose spans do not name them the fleet's model, pool and replica."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import structlog

from controlplane.telemetry.ledger import LedgerRow
from controlplane.telemetry.ledger.loads import Load
from inference.contract.snapshot import Endpoint, Snapshot, SnapshotError, decode

log = structlog.get_logger(__name__)

_LOOK_EVERY_S = 1.0


class Place(NamedTuple):
    """Where a request was served. `model` is empty where the pool serves several, `replica` where only the pool is known."""

    pool: str
    variant: str
    region: str
    model: str
    replica: str = ""


@dataclass(frozen=True, slots=True)
class FleetNames:
    """`models` are the fleet's names by what Triton calls them. `places` are by the names of pools and replicas and by addresses
    (`host:port`, and hosts). What would stand for several is left out."""

    models: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, Place] = field(default_factory=dict)


def names_of(snapshot: Snapshot) -> FleetNames:
    served: dict[str, set[str]] = {}  # models by pool
    for model in snapshot.models:
        for pool_name in (*(route.pool for route in model.routes), *model.fallbacks):
            served.setdefault(pool_name, set()).add(model.name)
    models: dict[str, set[str]] = {}
    places: dict[str, set[Place]] = {}
    pools: dict[str, Place] = {}
    for pool in snapshot.pools:
        own = served.get(pool.name, set())
        models.setdefault(pool.model_name, set()).update(own)
        here = Place(pool.name, pool.variant, pool.region, next(iter(own)) if len(own) == 1 else "")
        pools[pool.name] = here
        for endpoint in pool.endpoints:
            for key in {endpoint.replica, *_addresses(endpoint)}:
                places.setdefault(key, set()).add(here._replace(replica=endpoint.replica))
    certain = {key: next(iter(known)) for key, known in places.items() if len(known) == 1}
    return FleetNames({name: own.pop() for name, own in models.items() if len(own) == 1}, certain | pools)


def _addresses(endpoint: Endpoint) -> Iterator[str]:
    for address in (endpoint.grpc, urlsplit(endpoint.url).netloc, urlsplit(endpoint.metrics).netloc):
        host, colon, _ = address.rpartition(":")
        if address:
            yield address
        if colon and host not in ("localhost", "127.0.0.1", "[::1]"):
            yield host.strip("[]")


def named(rows: list[LedgerRow], names: FleetNames) -> list[LedgerRow]:
    """The rows, with the fleet's names in those whose spans do not have them."""
    return [_named(row, names) if row.origin or row.adapter == "triton" else row for row in rows]


def named_load(load: Load, names: FleetNames) -> Load:
    """The load, with the fleet's names where its spans have none."""
    place = _place(load.origin, names)
    if load.pool or place is None:
        return load
    return replace(load, pool=place.pool, replica=load.replica or place.replica, model=load.model or place.model)


def _place(origin: tuple[str, ...], names: FleetNames) -> Place | None:
    return next((names.places[key] for key in origin if key in names.places), None)


def _named(row: LedgerRow, names: FleetNames) -> LedgerRow:
    if row.adapter == "triton" and row.model in names.models:
        row = replace(row, model=names.models[row.model])
    if row.pool:
        return row
    place = _place(row.origin, names)
    if place is None:
        return row
    return replace(
        row,
        pool=place.pool,
        variant=row.variant or place.variant,
        region=row.region or place.region,
        replica=row.replica or place.replica,
        model=row.model or place.model,
    )


class NamesInForce:
    """The names in the policy snapshot, read again when the file changes. Where it cannot be read the previous names stay."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names = FleetNames()
        self._read: tuple[int, int] | None = None
        self._looked_s = -_LOOK_EVERY_S

    def __call__(self) -> FleetNames:
        now_s = time.monotonic()
        if now_s - self._looked_s >= _LOOK_EVERY_S:
            self._looked_s = now_s
            self._look()
        return self._names

    def _look(self) -> None:
        try:
            stat = self._path.stat()
            if self._read == (stat.st_mtime_ns, stat.st_ino):
                return
            self._read = stat.st_mtime_ns, stat.st_ino
            self._names = names_of(decode(self._path.read_bytes()))
        except FileNotFoundError:
            pass  # no fleet has been published: the servers' names stay
        except (OSError, SnapshotError) as error:
            log.warning("snapshot.unreadable", path=str(self._path), error=str(error))
