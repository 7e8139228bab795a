"""Makes a snapshot ready to serve from: callers by their key, models by their name. It is swapped whole. A request
finishes on the one that it began on.
"""

from collections.abc import Mapping
from typing import NamedTuple

from inference.backends.fleet import Fleet, PoolState
from inference.contract import lane
from inference.contract.metering.rate_limit import Limit, limits_of
from inference.contract.metering.spending import key_name
from inference.contract.metering.text_audit import TextKey, key_of
from inference.contract.plan import Plans, plans_of
from inference.contract.snapshot import Checked, Fault, Model, Snapshot, StageTimeouts, Tier, key_digest
from inference.contract.stage_timeouts import Timeouts, timeouts_of
from inference.core.guard.rules import Guard, guards_of
from inference.snapshot.issuers import Issuers
from inference.tokenizers.library import Tokenizers
from inference.tokenizers.model_text import ModelText


class Caller(NamedTuple):
    """The tenant behind an API key, and its limits: those of its tier for the tenant, and those of the key itself.
    `names_region`: `x-weir-region` of its requests counts.
    """

    tenant: str
    cached_as: str  # whose cached answers it meets again: the tenant's since their last purge
    tier: Tier
    limits: tuple[Limit, ...]
    regions: frozenset[str] = frozenset()  # the only ones where its requests may be served; none is all
    names_region: bool = False
    models: frozenset[str] = frozenset()  # the only ones that it may use and list; none is all
    expires_ms: int = 0  # Unix time from which on the key is refused; 0 is never
    is_lane: bool = False  # a worker sends a line for it
    can_wait: bool = False  # nobody waits for that line
    has_budget: bool = False
    guard: Guard | None = None  # its tenant's rules in its tier
    issuer: str = ""  # of its token, where it has sent no key
    user: str = ""  # a hash of who its token says that it is
    key: str = ""  # its name in spans
    tags: bytes = b""  # of its request: what the cache keeps apart by them
    audit: TextKey | None = None  # with which its texts are hashed, if its tenant asks for that

    def may_use(self, model: str) -> bool:
        return not self.models or model in self.models


class Served(NamedTuple):
    """`home` is the region of all pools of the model's own routes; empty where they are in several."""

    model: Model
    text: ModelText
    plans: Plans  # of tenants that may be served everywhere
    pinned: Mapping[frozenset[str], Plans] = {}  # of the others, by their regions
    home: str = ""

    def plans_for(self, caller: Caller) -> Plans:
        return self.pinned[caller.regions] if caller.regions else self.plans


Guards = Mapping[tuple[str, str], Guard]
"""Of those who have rules, by tenant and tier."""


class Serving(NamedTuple):
    snapshot: Snapshot
    callers: Mapping[str, Caller]  # by the key's digest
    models: Mapping[str, Served]
    pools: Mapping[str, PoolState]
    faults: tuple[Fault, ...]  # parts of the document that are not obeyed
    timeouts: Timeouts = {}  # where a rule changes them
    lane_sha256: str = ""  # of the secret with which the lane's workers send lines; empty where there is no lane
    batch_tier: Tier | None = None  # that lines are served in
    tenants: Mapping[str, Mapping[str, Caller]] = {}  # by the tiers that tokens may name, empty for its own
    issuers: Issuers | None = None  # None where the document has none
    guards: Guards = {}
    of_tokens: Mapping[
        str, Caller
    ] = {}  # whom a worker sends lines for that came with a token, by `lane.key_of_tokens`

    def of_lane(self, caller: Caller, own_tier: str) -> Caller:
        """Who a line is for that `caller`'s key has made. The tenant's limits count apart from those of its other requests, unless
        `own_tier` says why it is served as one of these.
        """
        caller = caller._replace(names_region=False, is_lane=True, can_wait=own_tier != lane.WAITED_FOR)
        if own_tier:
            return caller
        tier = self.batch_tier or caller.tier
        own = tuple(limit for limit in caller.limits if limit.scope == "key")
        limits = limits_of(caller.tenant, tier, of="lane") + own
        return _guarded(caller._replace(tier=tier, limits=limits), self.guards)

    def timeouts_for(self, model: str, tier: str) -> StageTimeouts:
        return self.timeouts.get((model, tier), self.snapshot.timeouts)

    def refused(self, model: str) -> bool:
        """Whether the document has this model in a form that cannot be served."""
        return any(fault.kind == "model" and fault.name == model for fault in self.faults)


def build(
    checked: Checked,
    fleet: Fleet,
    tokenizers: Tokenizers,
    issuers: Issuers,
    before: Serving | None,
    lane_token: str = "",
    user_hash_key: str = "",
) -> Serving:
    """Prepare `checked`. A faulty model stays as it was before if its pools are still there, a faulty tenant with its old
    tier.
    """
    snapshot, faults = checked.snapshot, checked.faults
    kept = {model.name: model for model in snapshot.models}
    pools = {pool.name for pool in snapshot.pools}
    faulty = {(fault.kind, fault.name) for fault in faults}
    for name, served in before.models.items() if before else ():
        if ("model", name) in faulty and all(route.pool in pools for route in served.model.routes):
            kept.setdefault(name, served.model)
    texts = tokenizers.swap(kept.values())
    tiers = {tier.name: tier for tier in snapshot.tiers}
    callers: dict[str, Caller] = {
        digest: caller
        for digest, caller in (before.callers.items() if before else ())
        if ("tenant", caller.tenant) in faulty
    }
    tenants: dict[str, Mapping[str, Caller]] = {}
    for tenant in snapshot.tenants:
        tier = tiers[tenant.tier]
        regions = frozenset(tenant.regions)
        cached_as = f"{tenant.name}\0{tenant.cache_purges}" if tenant.cache_purges else tenant.name
        audit = key_of(user_hash_key, tenant.name) if tenant.audits_texts else None
        of_tenant = Caller(tenant.name, cached_as, tier, limits_of(tenant.name, tier), regions, audit=audit)
        callers.update((digest, of_tenant._replace(key=key_name(digest))) for digest in tenant.key_sha256)
        if snapshot.issuers:
            others = {
                name: of_tenant._replace(tier=tiers[name], limits=limits_of(tenant.name, tiers[name]))
                for name in tenant.tiers
                if name in tiers
            }
            tenants[tenant.name] = {**others, "": of_tenant, tier.name: of_tenant}
        callers.update(
            (
                key.sha256,
                Caller(
                    tenant.name,
                    cached_as,
                    tier,
                    limits_of(tenant.name, tier, key),
                    regions,
                    key.names_region,
                    frozenset(key.models),
                    key.expires_ms,
                    has_budget=bool(key.usd_per_day or key.usd_per_month),
                    key=key_name(key.sha256),
                    audit=audit,
                ),
            )
            for key in tenant.keys
        )
    guards = guards_of(snapshot.guards, [fault.name for fault in faults if fault.kind == "guard"], tiers)
    if guards:
        callers = {digest: _guarded(caller, guards) for digest, caller in callers.items()}
        tenants = {
            name: {tier: _guarded(caller, guards) for tier, caller in each.items()} for name, each in tenants.items()
        }
    of_tokens = {
        lane.key_of_tokens(issuer.name, name, caller.tier.name): caller._replace(issuer=issuer.name)
        for issuer in snapshot.issuers
        for name, each in tenants.items()
        if lane_token and (issuer.all_tenants or name in issuer.tenants)
        for caller in each.values()
    }
    pinned = (caller.regions for tenant in tenants.values() for caller in tenant.values())
    plans = {
        regions: plans_of(kept.values(), snapshot.pools, list(tiers), snapshot.rules, snapshot.overlay, regions)
        for regions in {frozenset[str](), *(caller.regions for caller in callers.values()), *pinned}
    }
    everywhere = plans.pop(frozenset())
    region_of = {pool.name: pool.region for pool in snapshot.pools}
    models = {
        name: Served(
            model,
            texts[name],
            everywhere[name],
            {regions: each[name] for regions, each in plans.items()},
            _home(model, region_of),
        )
        for name, model in kept.items()
    }
    timeouts = timeouts_of(snapshot.timeouts, snapshot.timeout_rules, kept, tiers)
    lane_sha256 = key_digest(lane_token) if lane_token else ""
    pools_now = fleet.swap(snapshot)
    issuers.swap(snapshot.issuers)
    batch_tier, known = tiers.get(lane.TIER), issuers if snapshot.issuers else None
    return Serving(
        snapshot,
        callers,
        models,
        pools_now,
        faults,
        timeouts,
        lane_sha256,
        batch_tier,
        tenants,
        known,
        guards,
        of_tokens,
    )


def _guarded(caller: Caller, guards: Guards) -> Caller:
    """With the rules of its tenant in its tier. Answers that these let through are cached apart from others."""
    guard = guards.get((caller.tenant, caller.tier.name))
    return caller._replace(guard=guard, tags=guard.mark if guard else b"")


def _home(model: Model, region_of: Mapping[str, str]) -> str:
    own = {region_of[route.pool] for route in model.routes if route.weight}
    return own.pop() if len(own) == 1 else ""
