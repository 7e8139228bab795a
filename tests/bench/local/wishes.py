"""`python -m tests.bench.local.wishes REMOVALS POOL…`: a person's overrides, which give each pool a second replica and take it again.

It ends once so many replicas were removed, prints what the journal has of it as JSON, and leaves each pool with two. It runs in the home of
the control plane that follows the overrides (WEIR_HOME), and sees the cluster as that does.
"""

import json
import os
import sys
import time
from collections import Counter
from datetime import timedelta

import django

LOOK_EVERY_S = 0.25
GIVE_UP_S = 1_500.0


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    django.setup()

    from django.utils import timezone

    from controlplane.fleet.models import Replica
    from controlplane.policy.models import Action, Override

    removals, pools = int(sys.argv[1]), sys.argv[2:]
    now = timezone.now()
    for pool in pools:
        Override.objects.create(
            author="bench", reason="bench", starts_at=now, ends_at=now + timedelta(hours=2), pool=pool, replicas=2
        )
    began = time.monotonic()
    while (downs := Action.objects.filter(kind="down", step="done").count()) < removals:
        if time.monotonic() - began > GIVE_UP_S:
            break
        latest = {action.pool: action for action in Action.objects.filter(ended_at__isnull=False).order_by("pk")}
        for pool, action in latest.items():
            if action.step == "done":
                Override.objects.filter(pool=pool).update(replicas=1 if action.kind == "up" else 2)
        time.sleep(LOOK_EVERY_S)
    took_s = time.monotonic() - began
    Override.objects.update(replicas=2)
    while Replica.objects.filter(draining=False).count() < 2 * len(pools) and time.monotonic() - began < GIVE_UP_S:
        time.sleep(LOOK_EVERY_S)
    rows = Action.objects.filter(kind="down", ended_at__isnull=False)
    said = Counter(row.outcome.split(",")[0] for row in rows)
    each_s = sorted((row.ended_at - row.started_at).total_seconds() for row in rows if row.ended_at)
    print(json.dumps({"downs": downs, "took_s": each_s, "outcomes": dict(said), "s": took_s}))


if __name__ == "__main__":
    main()
