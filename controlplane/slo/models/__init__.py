"""Objectives as owners edit them, what was planned, and what the last evaluation said."""

from controlplane.slo.models.evaluation import Lease, ObjectiveState, Tick
from controlplane.slo.models.maintenance import Maintenance
from controlplane.slo.models.objective import ObjectiveRevision, StoredObjective

__all__ = ["Lease", "Maintenance", "ObjectiveRevision", "ObjectiveState", "StoredObjective", "Tick"]
