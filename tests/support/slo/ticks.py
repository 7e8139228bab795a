"""What the controller reports at a tick."""

from datetime import datetime

from controlplane.fleet.models import Observation


def ticked(at: datetime, error: str = "") -> None:
    judged = {} if error else {"up_at": at}
    state = "degraded" if error else "up"
    report = {"kind": "controller", "state": state, "observed_at": at, "error": error, **judged}
    Observation.objects.update_or_create(component="controller", defaults=report)
