from django.apps import AppConfig


class PlanningConfig(AppConfig):
    name = "controlplane.planning"
    verbose_name = "Planning"

    def ready(self) -> None:
        from controlplane.accounts.core.actions import ADMINISTER, EDIT_PLAN
        from controlplane.fleet.files import kinds, revisions
        from controlplane.fleet.files.kinds import Belongings, Kind
        from controlplane.planning import demo, refresh  # noqa: F401  (they register their kinds of job)
        from controlplane.planning.models import (
            GpuQuota,
            GpuType,
            PlannedEvent,
            PlanSettings,
            PoolCapacity,
            RegionCalendar,
            ReplicaCapacityEntry,
        )

        quotas = Belongings(GpuQuota, "gpu_type", ("region",), edits=ADMINISTER)
        source = ReplicaCapacityEntry.Source
        capacities = {
            name: Belongings(
                ReplicaCapacityEntry,
                "pool",
                ("gpu_type",),
                only={"source": of},
                hidden=("source",),
                edits=EDIT_PLAN,
                kept=of == source.BENCHMARK,
            )
            for name, of in {"entries": source.ENTERED, "benchmarks": source.BENCHMARK}.items()
        }
        kinds.add(
            Kind("PlanSettings", PlanSettings, returns="missing", named="", edits=ADMINISTER),
            Kind("GpuType", GpuType, {"quotas": quotas}, returns="missing", edits=ADMINISTER),
            Kind("PlannedEvent", PlannedEvent, returns="missing", named="slug", edits=EDIT_PLAN, saved=kinds.authored),
            Kind("RegionCalendar", RegionCalendar, returns="missing", named="region", edits=ADMINISTER),
            Kind("PoolCapacity", PoolCapacity, capacities, returns="missing", named="pool", edits=EDIT_PLAN),
        )
        revisions.connect()
