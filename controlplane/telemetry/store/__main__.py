"""`python -m controlplane.telemetry.store`: serves the embedded store alone, and prints its DSN."""

import gc

gc.disable()  # it would walk again and again what stays, for a quarter of each start

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from controlplane.config import Config

from .embedded.front import serve_embedded
from .errors import StoreError, StoreUnavailableError
from .maintenance.migrate import migrate


async def _serve(home: Path, port: int, retention_days: int, rollup_retention_days: int) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with serve_embedded(home, port) as dsn:
        await asyncio.to_thread(migrate, dsn, retention_days, rollup_retention_days)
        gc.freeze()  # not even when the process ends
        gc.enable()
        print(dsn, flush=True)  # for the caller; logs never have it
        await stopped.wait()


def main() -> None:
    config = Config.load()
    parser = argparse.ArgumentParser(prog="python -m controlplane.telemetry.store", description=__doc__)
    parser.add_argument(
        "--home", type=Path, default=config.home, help="folder of the data and the password (WEIR_HOME)"
    )
    parser.add_argument("--port", type=int, default=0, help="0 picks a free one")
    parser.add_argument("--retention-days", type=int, default=config.retention_days)
    arguments = parser.parse_args()
    try:
        asyncio.run(_serve(arguments.home, arguments.port, arguments.retention_days, config.rollup_retention_days))
    except (StoreUnavailableError, StoreError, OSError) as error:
        sys.exit(f"the store does not start: {error}")


if __name__ == "__main__":
    main()
