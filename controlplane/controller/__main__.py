"""`python -m controlplane.controller`. See docs/objectives.md."""

import os
import signal
import sys
import threading
from collections.abc import Sequence
from datetime import datetime

import django


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    django.setup()

    from django.conf import settings

    from controlplane.config.connections import connections_of
    from controlplane.controller.http import serve
    from controlplane.controller.loop import LEASE, LEASE_LASTS, Controller, Fence
    from controlplane.fleet.clusters.registry import clusters
    from controlplane.incidents.act.actions import retire
    from controlplane.incidents.decide import engine
    from controlplane.observability import tracing
    from controlplane.policy.loop import PolicyLoop
    from controlplane.policy.observe.ended import ended
    from controlplane.slo.core.alert import Alert
    from controlplane.telemetry.store import Store, StoreInputError
    from inference.contract.tls.clear_text import warn

    def observe(alerts: Sequence[Alert], now: datetime, fence: Fence) -> None:
        engine.observe(alerts, now, fence)
        retire(now, fence)

    config = settings.CONFIG
    tracing.configure("weir-controller", config)
    warn(connections_of(config))
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    try:
        store = Store(config.store_dsn)
    except StoreInputError as error:
        sys.exit(f"the controller cannot run: {error}")
    controller = Controller(store, config, observe)
    policies = PolicyLoop(config, store, clusters(), LEASE, controller.holder, LEASE_LASTS, stopping)
    controller.at_zero = policies.at_zero
    controller.gateways = lambda: ended(policies.traffic())
    with serve(config, controller) as port:
        print(f"controller http={port}", flush=True)
        policies.start()
        if config.resources_namespace:  # the client takes 35 MB
            from controlplane.sources.follow import follow

            follower = follow(config.resources_namespace, LEASE, controller.holder, LEASE_LASTS, stopping)
            controller.beside = lambda: follower.problem
        controller.run(stopping)
        policies.join(timeout=5.0)


if __name__ == "__main__":
    main()
