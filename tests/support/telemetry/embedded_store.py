"""The embedded store as a part that tests start."""

import sys
from pathlib import Path

from controlplane.telemetry.store import Store, access
from deploy.local.process import Command


def embedded_store(home: Path, port: int) -> tuple[Command, str]:
    """How to start it, and its DSN. Once it answers, `migrate(dsn)` makes sure of its tables."""
    dsn = access.dsn(home, port)
    argv = (sys.executable, "-m", "controlplane.telemetry.store", "--home", str(home), "--port", str(port))
    return Command("store", argv, Store(dsn).ping, start_s=120), dsn
