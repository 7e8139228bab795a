"""What gateways decide about recorded requests by a document, with the functions by which gateways decide."""

import heapq
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from controlplane.policy.preview.core.routed import shares
from controlplane.telemetry.core.query_types import FROM_CACHE
from controlplane.telemetry.core.replayed_rows import RecordedRequest
from inference.contract.metering.cost import Used, cost_usd, price_at
from inference.contract.metering.rate_limit import SHED_REASONS, Window, limits_of
from inference.contract.plan import Plan, Plans, allowed_regions, plans_of
from inference.contract.rules import NO_OVERLAY
from inference.contract.snapshot import Snapshot, Tier
from inference.contract.stage_timeouts import timeouts_of

TIMED = ("tokenizer_ms", "queue_ms", "model_ms")
"""Timeouts of stages whose time the ledger has."""
TOO_LONG = "takes longer than {}"


class Decided(NamedTuple):
    """`refused` says why. `to` has the pools to which it would go, each with its share of such requests."""

    refused: str = ""
    plan: Plan | None = None
    to: dict[str, float] = {}

    @property
    def ended(self) -> bool:
        """Whether it ran out of time, which is no fault of its client."""
        return self.refused.startswith(TOO_LONG.format(""))


class Gateways:
    """All of them as they obey one document, without an overlay. They are asked in the order of time. `to_ms`: prices are those of then."""

    def __init__(self, document: Snapshot, to_ms: int) -> None:
        self.document = document
        self.models = {model.name: model for model in document.models}
        self.pools = {pool.name: pool for pool in document.pools}
        self.tiers = {tier.name: tier for tier in document.tiers}
        self.tenants = {tenant.name: tenant for tenant in document.tenants}
        self.prices = {pool.name: price_at(pool.prices, to_ms) for pool in document.pools}
        self._timeouts = timeouts_of(document.timeouts, document.timeout_rules, self.models, self.tiers)
        self._plans: dict[frozenset[str], dict[str, Plans]] = {}
        self._windows: defaultdict[bytes, Window] = defaultdict(Window)
        self._ends_ms: defaultdict[bytes, list[int]] = defaultdict(list)

    def decide(self, request: RecordedRequest, tier_name: str) -> Decided:
        """In the order of the gateway: model, tenant, region, limits; then what a request meets that no stored answer ends."""
        model = self.models.get(request.model)
        if model is None:
            return Decided("its model is not served")
        tenant, tier = self.tenants.get(request.tenant), self.tiers.get(tier_name)
        regions = frozenset(tenant.regions) if tenant else frozenset[str]()
        plans = self._plans_in(regions)[model.name]
        plan = plans.only or plans.choose(
            tier_name, request.tenant, request.caller_region, lambda: request.prompt_tokens or 0
        )
        if not plan.routes and not plan.fallbacks:
            return Decided("it may not be served in any region")
        if tier and tenant and not request.can_wait and (reason := self._over_limit(request, tier)):
            return Decided(reason)
        if request.cache not in FROM_CACHE:
            if (request.prompt_tokens or 0) > model.max_prompt_tokens:
                return Decided("its prompt is too long")
            timeouts = self._timeouts.get((model.name, tier_name), self.document.timeouts)
            for name in TIMED:
                if getattr(request, name) > getattr(timeouts, name):
                    return Decided(TOO_LONG.format(name))
        return Decided("", plan, self._shares(plan))

    def regions_of(self, request: RecordedRequest) -> frozenset[str] | None:
        tenant = self.tenants.get(request.tenant)
        return allowed_regions(self.models[request.model], frozenset(tenant.regions if tenant else ()))

    def usd(self, request: RecordedRequest, to: Mapping[str, float]) -> float | None:
        """What it is expected to cost; None where that is not known."""
        used = Used(*(-1 if count is None else count for count in (request.prompt_tokens, request.output_tokens)))
        costs = [(share, cost_usd(self.prices.get(pool), used)) for pool, share in to.items()]
        if any(usd is None for _, usd in costs):
            return None
        return sum(share * (usd or 0.0) for share, usd in costs)

    def _plans_in(self, regions: frozenset[str]) -> dict[str, Plans]:
        if regions not in self._plans:
            document = self.document
            self._plans[regions] = plans_of(
                document.models, document.pools, list(self.tiers), document.rules, NO_OVERLAY, regions
            )
        return self._plans[regions]

    def _over_limit(self, request: RecordedRequest, tier: Tier) -> str:
        """Counts the request, and says which limit of its tenant refuses it; empty: none."""
        at_ms, limits = request.at_ms, limits_of(request.tenant, tier)
        for limit in limits:
            ends = self._ends_ms[limit.key]
            while ends and ends[0] <= at_ms:
                heapq.heappop(ends)
            full = len(ends) >= limit.most if limit.kind == "in_flight" else False
            if full or (limit.kind != "in_flight" and self._windows[limit.key].wait_ms(limit.most, at_ms)):
                return SHED_REASONS[limit.kind]
        for limit in limits:
            if limit.kind == "in_flight":
                heapq.heappush(self._ends_ms[limit.key], at_ms + request.e2e_ms)
            else:
                tokens = (request.prompt_tokens or 0) + (request.output_tokens or 0)
                self._windows[limit.key].take(tokens if limit.kind == "tokens" else 1, at_ms)
        return ""

    def _shares(self, plan: Plan) -> dict[str, float]:
        """As `choose_pool` of the gateway: by weight among pools that have replicas, else the first fallback that has one."""
        with_replicas = [route for route in plan.routes if self._serves(route.pool)]
        if with_replicas:
            return dict(shares(with_replicas)) or {with_replicas[0].pool: 1.0}
        spare = [name for name in plan.fallbacks if self._serves(name)]
        return {spare[0]: 1.0} if spare else dict(shares(plan.routes))

    def _serves(self, pool: str) -> bool:
        return pool in self.pools and any(not each.draining for each in self.pools[pool].endpoints)
