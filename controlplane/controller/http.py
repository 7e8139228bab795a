"""Serves the controller's `/readyz`, `/healthz` and `/metrics`."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from controlplane.config import Config
from controlplane.controller.loop import Controller
from controlplane.observability import metrics_server

STUCK_AFTER_S = 60.0


@contextmanager
def serve(config: Config, controller: Controller) -> Iterator[int]:
    """Serves at the configured address while the block runs; yields the port."""
    server = metrics_server.serve_by(
        config, "WEIR_CONTROLLER_PORT", config.controller_host, config.controller_port, lambda: _ready(controller)
    )
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def _ready(controller: Controller) -> tuple[int, str]:
    """Ready after a tick that is not older than STUCK_AFTER_S."""
    if not controller.last_step:
        return 503, "no tick yet"
    age_s = time.monotonic() - controller.last_step
    return (200, "ready") if age_s < STUCK_AFTER_S else (503, f"the last tick was {age_s:.0f} s ago")
