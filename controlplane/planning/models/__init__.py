"""Forecasts and their record, planned events and calendars, what capacity costs and gives, and jobs."""

from controlplane.planning.models.calendar import PlannedEvent, RegionCalendar
from controlplane.planning.models.capacity import GpuQuota, GpuType, PlanSettings, PoolCapacity, ReplicaCapacityEntry
from controlplane.planning.models.demo import DemoHistory
from controlplane.planning.models.forecast import CandidateChange, ForecastRecord, StoredForecast
from controlplane.planning.models.job import PlanJob
from controlplane.planning.models.measured import MeasuredHitRate, MeasuredPool

__all__ = [
    "CandidateChange", "DemoHistory", "ForecastRecord", "GpuQuota", "GpuType", "MeasuredHitRate", "MeasuredPool", "PlanJob",
    "PlanSettings", "PlannedEvent", "PoolCapacity", "RegionCalendar", "ReplicaCapacityEntry", "StoredForecast",
]  # fmt: skip
