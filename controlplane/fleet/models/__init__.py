"""Models of the fleet: what is served, for whom, and its latest observations."""

from controlplane.fleet.models.observation import Observation
from controlplane.fleet.models.revision import SnapshotRevision
from controlplane.fleet.models.serving import LLMModel, Pool, Region, Replica, Team, Variant
from controlplane.fleet.models.traffic import GatewayKey, StageTimeouts, Tenant, Tier

__all__ = [
    "GatewayKey",
    "LLMModel",
    "Observation",
    "Pool",
    "Region",
    "Replica",
    "SnapshotRevision",
    "StageTimeouts",
    "Team",
    "Tenant",
    "Tier",
    "Variant",
]
