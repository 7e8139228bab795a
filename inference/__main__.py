"""`python -m inference`: runs the gateway until SIGTERM or SIGINT. A second signal ends it at once."""

import gc

gc.disable()  # it would walk again and again what stays, for a quarter of each start

import asyncio
import signal
import sys

import structlog
import uvloop

from inference.app import Gateway
from inference.config import Config, ConfigError, load
from inference.contract import logs
from inference.contract.settings import names
from inference.contract.tls.certificate import ServerCertificate, TlsError
from inference.contract.tls.clear_text import warn
from inference.wires.http.server import Server
from inference.workers.supervisor import Supervisor
from inference.workers.worker import Worker

_log = structlog.get_logger()
_OBJECTS_UNTIL_COLLECTED = 10_000
_THREADS_TURN_S = 0.001  # for so long a thread may keep the event loop from its interpreter; by default 5 ms


async def run(config: Config) -> int:
    """Serve, or supervise workers that do, until a signal comes. Returns the exit status."""
    worker = await Worker.joined()
    if worker is not None:
        return await serve(config.share_of(worker.workers), worker)
    names.warn()
    if config.gateway_workers > 1:
        gc.enable()
        return await Supervisor(config).run()
    return await serve(config, None)


async def serve(config: Config, worker: Worker | None) -> int:
    stop, hurry = asyncio.Event(), asyncio.Event()

    def end() -> None:
        (hurry if stop.is_set() else stop).set()

    loop = asyncio.get_running_loop()
    if worker is None:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, end)
    else:
        # A terminal and some service managers signal every process of the group: only the supervisor counts signals.
        loop.add_signal_handler(signal.SIGTERM, stop.set)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        certificate = ServerCertificate.named(config.tls_certificate, config.tls_key, config.tls_client_ca, "WEIR_TLS")
    except TlsError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    gateway = Gateway(config)
    gateway.worker, gateway.certificate = worker, certificate
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
        certificate=certificate,
        streams=gateway.streams,
    )
    gateway.connections = lambda: (len(server.connections), server.held_bytes)
    try:
        port = await server.start(config.gateway_host, config.gateway_port, shared=worker is not None)
    except OSError as error:
        _log.error(
            "gateway.listen_failed",
            host=config.gateway_host,
            port=config.gateway_port,
            reason=error.strerror or str(error),
        )
        await gateway.close()
        return 1
    if worker is not None:
        worker.start(gateway.metrics.families, stop.set, hurry.set)
    # Keep the garbage collector from walking a vocabulary of 131k entries again and again.
    gc.collect()
    gc.freeze()
    gc.enable()
    # Requests leave next to no cycles. By default it would walk all that belongs to those in flight at every 700th object.
    gc.set_threshold(_OBJECTS_UNTIL_COLLECTED)
    sys.setswitchinterval(_THREADS_TURN_S)
    scheme = "https" if certificate else "http"
    warn(config.connections)
    _log.info("gateway.started", url=f"{scheme}://{config.gateway_host}:{port}")
    await stop.wait()
    _log.info("gateway.drain_started", in_flight=gateway.completions.in_flight)
    gateway.leave()
    await server.close(config.lame_duck_ms / 1000, config.drain_timeout_ms / 1000, hurry)
    await gateway.close()
    if worker is not None:
        worker.close()
    _log.info("gateway.stopped")
    return 0


def main() -> int:
    try:
        config = load()
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    logs.configure(logs.stdlib_logging(config.log_format, config.log_level))
    return uvloop.run(run(config))


if __name__ == "__main__":
    sys.exit(main())
