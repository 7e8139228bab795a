"""`python -m inference`: runs the gateway until SIGTERM or SIGINT. A second signal ends it at once."""

import asyncio
import gc
import signal
import sys

import structlog
import uvloop

from inference.app import Gateway
from inference.config import Config, ConfigError, load
from inference.wires.http.server import Server

_log = structlog.get_logger()


async def serve(config: Config) -> int:
    """Serve until a signal comes. Returns the exit status."""
    stop, hurry = asyncio.Event(), asyncio.Event()

    def end() -> None:
        (hurry if stop.is_set() else stop).set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end)
    gateway = Gateway(config)
    gateway.start()
    server = Server(
        gateway,
        gateway.admit,
        max_body_bytes=config.max_body_bytes,
        max_connections=config.max_connections,
        max_buffered_bytes=config.max_buffered_bytes,
        read_timeout_s=config.read_timeout_ms / 1000,
        write_timeout_s=config.write_timeout_ms / 1000,
        idle_timeout_s=config.idle_timeout_ms / 1000,
        counts=gateway.edge,
    )
    gateway.connections = lambda: (len(server.connections), server.held_bytes)
    try:
        port = await server.start(config.gateway_host, config.gateway_port)
    except OSError as error:
        _log.error(
            "gateway.listen_failed",
            host=config.gateway_host,
            port=config.gateway_port,
            reason=error.strerror or str(error),
        )
        await gateway.close()
        return 1
    # Keep the garbage collector from walking a vocabulary of 131k entries again and again.
    gc.collect()
    gc.freeze()
    _log.info("gateway.started", url=f"http://{config.gateway_host}:{port}")
    await stop.wait()
    _log.info("gateway.drain_started", in_flight=gateway.completions.in_flight)
    gateway.draining = True
    await server.close(config.lame_duck_ms / 1000, config.drain_timeout_ms / 1000, hurry)
    await gateway.close()
    _log.info("gateway.stopped")
    return 0


def main() -> int:
    try:
        config = load()
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return uvloop.run(serve(config))


if __name__ == "__main__":
    sys.exit(main())
