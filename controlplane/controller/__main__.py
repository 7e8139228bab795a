"""`python -m controlplane.controller`. See docs/objectives.md."""

import os
import signal
import threading
from collections.abc import Sequence
from datetime import datetime

import django


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    django.setup()

    from django.conf import settings

    from controlplane.controller.http import serve
    from controlplane.controller.loop import Controller, Fence
    from controlplane.incidents.decide import engine
    from controlplane.incidents.decide.retire import retire
    from controlplane.observability import tracing
    from controlplane.slo.core.alert import Alert
    from controlplane.telemetry.store import Store

    def observe(alerts: Sequence[Alert], now: datetime, fence: Fence) -> None:
        engine.observe(alerts, now, fence)
        retire(now, fence)

    config = settings.CONFIG
    tracing.configure("weir-controller", config)
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    controller = Controller(Store(config.store_dsn), config, observe)
    with serve(config, controller) as port:
        print(f"controller http={port}", flush=True)
        controller.run(stopping)


if __name__ == "__main__":
    main()
