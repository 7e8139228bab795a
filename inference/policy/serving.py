"""A snapshot made ready to serve from: who a key belongs to, what a model name means. Swapped whole; a request
finishes on the one it began on.
"""

from collections.abc import Mapping
from typing import NamedTuple

from inference.backends.fleet import Fleet, PoolState
from inference.core.rate_limit import Bucket
from inference.core.snapshot import Checked, Fault, Model, Snapshot, Tier
from inference.request import tokenize
from inference.request.tokenize import Tokenizer


class Caller(NamedTuple):
    """The tenant behind an API key, and what is left of its tier's limits; None where there is no limit."""

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
    faults: tuple[Fault, ...]  # of the document: parts of it that are not obeyed

    def refused(self, model: str) -> bool:
        """Whether the document has this model in a form that cannot be served."""
        return any(fault.kind == "model" and fault.name == model for fault in self.faults)


def build(checked: Checked, fleet: Fleet, before: Serving | None) -> Serving:
    """What was faulty in the document stays as it was before, where it can: a model while its pools are there, a tenant
    with its tier.
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
    """The old bucket while its limit stays: a new policy is no way to start afresh."""
    if limit <= 0:
        return None
    return old if old is not None and old.limit == limit else Bucket(limit)
