"""Objectives as owners edit them, what was planned, and what the last evaluation said."""

from controlplane.slo.models.evaluation import Lease, ObjectiveState, Tick
from controlplane.slo.models.objective import ObjectiveRevision, StoredObjective
from controlplane.slo.models.planned_maintenance import Maintenance

__all__ = ["Lease", "Maintenance", "ObjectiveRevision", "ObjectiveState", "StoredObjective", "Tick"]
