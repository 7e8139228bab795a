"""Objectives, maintenance windows, and the results of the last evaluation."""

from controlplane.slo.models.evaluation import MeasurementGap, ObjectiveState
from controlplane.slo.models.objective import ObjectiveRevision, StoredObjective
from controlplane.slo.models.planned_maintenance import Maintenance

__all__ = ["Maintenance", "MeasurementGap", "ObjectiveRevision", "ObjectiveState", "StoredObjective"]
