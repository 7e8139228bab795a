"""`python -m controlplane.lane`: serves files, batches, background responses and jobs, and runs them. See docs/batches.md."""

import asyncio
import os
import signal
import sys

import django
import uvloop

from controlplane.config import ConfigError
from controlplane.config.connections import connections_of
from controlplane.lane.config import LaneConfig
from inference.contract.tls.clear_text import connections, reached, warn


async def _run(config: LaneConfig) -> None:
    from controlplane.lane.process import serve

    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with serve(config) as port:
        print(f"lane http={port}", flush=True)
        gateways = reached("gateways", config.lane_host, encrypted=config.lane_certificate is not None)
        kafka = reached("Kafka", config.lane_kafka, encrypted=config.lane_kafka_protocol.endswith("SSL"))
        bucket = os.environ.get("AWS_ENDPOINT_URL", "") if config.objects_at.startswith("s3:") else ""
        warn(
            [
                gateways,
                *([kafka] if config.lane_kafka else []),
                *connections([("objects", bucket)]),
                *connections_of(config),
            ]
        )
        await stopped.wait()


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    django.setup()
    from controlplane.lane.process import StartError

    try:
        uvloop.run(_run(LaneConfig.load()))
    except (ConfigError, StartError) as error:
        sys.exit(f"the lane cannot start: {error}")


if __name__ == "__main__":
    main()
