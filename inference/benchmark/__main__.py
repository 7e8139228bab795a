"""`python -m inference.benchmark`: sends the requests of a benchmark to one replica. It reads a `Setup` and then commands from its
input, writes reports to its output (`inference/contract/benchmark_messages.py`), and ends with its input.
"""

import asyncio
import sys

import msgspec
import structlog
import uvloop

from inference.backends.credentials import Credentials
from inference.backends.openai import OpenAIConnector
from inference.backends.port import Connector
from inference.backends.triton import TritonConnector
from inference.benchmark.sender import CannotMeasureError, Sender
from inference.config import FLUSH_SPANS_S, ConfigError, load
from inference.contract.benchmark_messages import Command, Failed, Report, Setup, Stop
from inference.observability.span_export import SpanExport

_MAX_LINE_BYTES = 1 << 24
_CONNECT_S = 5.0
_encode = msgspec.json.Encoder().encode
_command = msgspec.json.Decoder(Command)


def _say(report: Report) -> None:
    sys.stdout.buffer.write(_encode(report) + b"\n")
    sys.stdout.buffer.flush()


async def _serve() -> int:
    """Until the input ends. Returns the exit status."""
    reader = asyncio.StreamReader(_MAX_LINE_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    setup = msgspec.json.decode(await reader.readline(), type=Setup)
    work = asyncio.create_task(_work(setup, reader))
    try:
        await work
    except (CannotMeasureError, ConfigError) as error:
        _say(Failed(str(error)))
        return 1
    return 0


async def _work(setup: Setup, reader: asyncio.StreamReader) -> None:
    config = load()
    credentials = Credentials(config.backend_credentials_dir)
    connectors: dict[str, Connector] = {
        "triton": TritonConnector(credentials),
        "openai": OpenAIConnector(credentials, link_local=config.backend_link_local),
    }
    pool, [endpoint] = setup.pool, setup.pool.endpoints
    connector = connectors[pool.protocol]
    link = connector.connect(pool, endpoint, _CONNECT_S)
    export = SpanExport(config.otlp_endpoint, interval_s=config.otlp_interval_ms / 1000, token=config.otlp_token)
    export.start()
    sender = Sender(setup, connector.backend(link, pool, endpoint), _say, export.submit)
    stopped = asyncio.Event()
    load_under_way: asyncio.Task[None] | None = None
    reading = asyncio.create_task(reader.readline())
    try:
        await sender.ready()
        while True:
            waits = {reading} if load_under_way is None else {reading, load_under_way}
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if load_under_way is not None and load_under_way.done():
                load_under_way.result()
                load_under_way = None
            if reading.done():
                if not (line := reading.result()):
                    return
                command = _command.decode(line)
                if isinstance(command, Stop):
                    stopped.set()
                else:
                    stopped.clear()
                    load_under_way = asyncio.create_task(sender.run(command, stopped))
                reading = asyncio.create_task(reader.readline())
    finally:
        reading.cancel()
        if load_under_way is not None:
            load_under_way.cancel()
            await asyncio.gather(load_under_way, return_exceptions=True)
        link.close()
        await export.close(FLUSH_SPANS_S)


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    sys.exit(uvloop.run(_serve()))
