"""Models of the fleet: what is served, for whom, and its latest observations."""

from django.db.models import Model

from controlplane.fleet.models.cluster import Cluster
from controlplane.fleet.models.guards import GuardRule
from controlplane.fleet.models.issuers import TokenIssuer
from controlplane.fleet.models.observation import Observation
from controlplane.fleet.models.prices import Price
from controlplane.fleet.models.proposal import FleetProposal, ProposalEvent, StepTaken, record_step
from controlplane.fleet.models.published import PublishedSnapshot, RoutingRules, SnapshotRevision
from controlplane.fleet.models.revision import FleetChange, FleetRevision
from controlplane.fleet.models.serving import Fallback, LLMModel, Pool, Region, Replica, Team, Variant
from controlplane.fleet.models.timeouts import TimeoutRule
from controlplane.fleet.models.traffic import AllowedRegion, CachePurge, GatewayKey, StageTimeouts, Tenant, Tier
from controlplane.fleet.models.workload import Workload

NAMED_BY: dict[str, type[Model]] = {
    "model": LLMModel, "variant": Variant, "pool": Pool, "region": Region, "tier": Tier, "tenant": Tenant,
}  # fmt: skip
"""What the values of a dimension of requests are names of. Lengths of prompts have none."""
__all__ = [
    "NAMED_BY", "AllowedRegion", "CachePurge", "Cluster", "Fallback", "FleetChange", "FleetProposal", "FleetRevision", "GatewayKey",
    "GuardRule", "LLMModel", "Observation", "Pool", "Price", "ProposalEvent", "PublishedSnapshot", "Region", "Replica", "RoutingRules",
    "SnapshotRevision", "StageTimeouts", "StepTaken", "Team", "Tenant", "Tier", "TimeoutRule", "TokenIssuer", "Variant", "Workload",
    "record_step",
]  # fmt: skip
