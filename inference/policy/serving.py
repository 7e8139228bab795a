"""Makes a snapshot ready to serve from: callers by their key, models by their name. It is swapped whole. A request
finishes on the one that it began on.
"""

from collections.abc import Mapping
from typing import NamedTuple

from inference.backends.fleet import Fleet, PoolState
from inference.core.rate_limit import Bucket
from inference.core.snapshot import Checked, Fault, Model, Snapshot, Tier
from inference.request import tokenize
from inference.request.tokenize import Tokenizer


class Caller(NamedTuple):
    """The tenant behind an API key, and the buckets of its tier's limits; None where there is no limit."""

    tenant: str
    tier: Tier
    requests: Bucket | None
    tokens: Bucket | None


class Served(NamedTuple):
    model: Model
    tokenizer: Tokenizer


class Serving(NamedTuple):
    snapshot: Snapshot
    callers: Mapping[str, Caller]  # by the key's digest
    models: Mapping[str, Served]
    pools: Mapping[str, PoolState]
    faults: tuple[Fault, ...]  # parts of the document that are not obeyed

    def refused(self, model: str) -> bool:
        """Whether the document has this model in a form that cannot be served."""
        return any(fault.kind == "model" and fault.name == model for fault in self.faults)


def build(checked: Checked, fleet: Fleet, before: Serving | None) -> Serving:
    """Prepare `checked`. A faulty model stays as it was before if its pools are still there, a faulty tenant with its old
    tier.
    """
    snapshot, faults = checked
    models = {model.name: Served(model, tokenize.load(model.tokenizer)) for model in snapshot.models}
    pools = {pool.name for pool in snapshot.pools}
    faulty = {(fault.kind, fault.name) for fault in faults}
    for name, served in before.models.items() if before else ():
        if ("model", name) in faulty and all(route.pool in pools for route in served.model.routes):
            models.setdefault(name, served)
    tiers = {tier.name: tier for tier in snapshot.tiers}
    known = {caller.tenant: caller for caller in before.callers.values()} if before else {}
    callers: dict[str, Caller] = {
        digest: caller
        for digest, caller in (before.callers.items() if before else ())
        if ("tenant", caller.tenant) in faulty
    }
    for tenant in snapshot.tenants:
        tier, old = tiers[tenant.tier], known.get(tenant.name)
        caller = Caller(
            tenant.name,
            tier,
            _bucket(tier.requests_per_minute, old.requests if old else None),
            _bucket(tier.tokens_per_minute, old.tokens if old else None),
        )
        callers.update((digest, caller) for digest in tenant.key_sha256)
    return Serving(snapshot, callers, models, fleet.swap(snapshot), faults)


def _bucket(limit: int, old: Bucket | None) -> Bucket | None:
    """The old bucket if the limit is the same, so that a new snapshot does not give a tenant a full bucket."""
    if limit <= 0:
        return None
    return old if old is not None and old.limit == limit else Bucket(limit)
