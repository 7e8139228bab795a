"""What an owner does to a running system. `tests/support/deploy/outage.py` runs these functions in `manage.py shell` of its home."""

import json
import time

from django.conf import settings
from django.utils import timezone

from controlplane.fleet.models import Cluster, Pool, Replica
from controlplane.fleet.publish import publish
from controlplane.incidents.act import actions
from controlplane.incidents.notify.delivery.models import Destination
from controlplane.slo.core.objective import Objective, Rolling
from controlplane.slo.core.sli import Availability
from controlplane.slo.models import StoredObjective
from controlplane.slo.save import save_objective


def set_up(url: str) -> None:
    """One objective of 99.9 %, one destination at `url`, and no cluster that is watched: nothing mends what a test breaks."""
    Pool.objects.update(cluster=None)
    Cluster.objects.update(enabled=False)
    StoredObjective.objects.update(enabled=False)
    save_objective(
        Objective(
            slug="all-answered",
            name="Every request is answered",
            indicator=Availability(),
            target=0.999,
            period=Rolling(30 * 86_400),
            owner="",
        ),
        who="test",
    )
    be_told(url)


def be_told(url: str) -> None:
    """One destination at `url`."""
    destination = Destination(name="stand-in", kind="pagerduty")
    destination.point_at(url, "0" * 32)
    destination.save()


def break_everything() -> None:
    """No replica can be reached from now on. Prints the Unix time of it."""
    Replica.objects.update(grpc="127.0.0.1:1")
    print(time.time(), flush=True)
    publish()


def mend_everything() -> None:
    """Every replica can be reached again."""
    for model in json.loads((settings.CONFIG.home / "run" / "fleet.json").read_text())["models"]:
        for pool in model["pools"]:
            for replica in pool["replicas"]:
                Replica.objects.filter(pool__name=pool["name"], name=replica["name"]).update(grpc=replica["grpc"])
    publish()


def resolve(key: str) -> None:
    """Resolves the incident of this notice."""
    actions.resolve(key, "olga", timezone.now())
