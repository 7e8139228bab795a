"""`python -m controlplane.telemetry`: receives OTLP and runs spool, pipelines and store. See docs/telemetry.md."""

import gc

gc.disable()  # it would walk again and again what stays, for a quarter of each start

import asyncio
import logging
import os
import signal
import sys

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # children are started by exec; read when grpc is imported

import uvloop

from controlplane.config import ConfigError
from controlplane.config.connections import connections_of
from controlplane.telemetry.config import IngestConfig
from controlplane.telemetry.process.service import StartError, serve
from inference.contract import logs
from inference.contract.settings import names
from inference.contract.tls.clear_text import connections, reached, warn


async def _run(config: IngestConfig) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with serve(config) as (http_port, grpc_port):
        print(f"otlp http={http_port} grpc={grpc_port}", flush=True)
        senders = reached("senders of spans", config.otlp_host, encrypted=config.otlp_certificate is not None)
        warn([senders, *connections_of(config), *connections([("snapshot", config.snapshot_url)])])
        gc.freeze()  # not even when the process ends
        gc.enable()
        await stopped.wait()


def main() -> None:
    for library in ("urllib3", "clickhouse_connect"):
        logging.getLogger(library).setLevel(logging.CRITICAL)  # `rollups` logs their errors once
    try:
        config = IngestConfig.load()
        logs.configure(logs.stdlib_logging(config.log_format, config.log_level))
        names.warn()
        uvloop.run(_run(config))
    except (ConfigError, StartError) as error:
        sys.exit(f"telemetry cannot start: {error}")


if __name__ == "__main__":
    main()
