"""`python -m inference`: the gateway, until SIGTERM or SIGINT."""

import asyncio
import gc
import signal
import sys

import structlog
import uvloop

from inference.app import Gateway
from inference.config import Config, load
from inference.server import Server

_log = structlog.get_logger()


async def serve(config: Config) -> int:
    """Serve until told to stop; the exit status."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    gateway = Gateway(config)
    gateway.start()
    server = Server(
        gateway,
        gateway.admit,
        max_body_bytes=config.max_body_bytes,
        max_connections=config.max_connections,
        read_timeout_s=config.read_timeout_ms / 1000,
        idle_timeout_s=config.idle_timeout_ms / 1000,
    )
    try:
        port = await server.start(config.gateway_host, config.gateway_port)
    except OSError as error:
        _log.error(
            "gateway.cannot_listen",
            host=config.gateway_host,
            port=config.gateway_port,
            reason=error.strerror or str(error),
        )
        await gateway.close()
        return 1
    # What lives now lives for ever: keep the collector from walking a vocabulary of 131k entries again and again.
    gc.collect()
    gc.freeze()
    _log.info("gateway.ready", url=f"http://{config.gateway_host}:{port}")
    await stop.wait()
    _log.info("gateway.draining", in_flight=gateway.completions.in_flight)
    gateway.draining = True
    await server.close(config.drain_timeout_ms / 1000)
    await gateway.close()
    _log.info("gateway.stopped")
    return 0


def main() -> int:
    return uvloop.run(serve(load()))


if __name__ == "__main__":
    sys.exit(main())
