"""Which tasks the worker runs, and how often. Seconds."""

from typing import Any

SCHEDULE: dict[str, dict[str, Any]] = {
    # A message older than its period expires: the next one does the same work.
    "heartbeat": {"task": "controlplane.fleet.tasks.heartbeat", "schedule": 5.0, "options": {"expires": 5.0}},
    "publish-snapshot": {
        "task": "controlplane.fleet.tasks.publish_snapshot",
        "schedule": 30.0,
        "options": {"expires": 30.0},
    },
    "plan-jobs": {"task": "controlplane.planning.tasks.run_jobs", "schedule": 2.0, "options": {"expires": 2.0}},
    "forecasts": {"task": "controlplane.planning.tasks.refresh_if_due", "schedule": 30.0, "options": {"expires": 30.0}},
    "prune-decisions": {
        "task": "controlplane.policy.tasks.prune_decisions",
        "schedule": 60.0,
        "options": {"expires": 60.0},
    },
    "prune-tenants": {
        "task": "controlplane.tenants.tasks.prune_tenants",
        "schedule": 3600.0,
        "options": {"expires": 3600.0},
    },
}
