"""Serves ClickHouse's HTTP interface over the embedded engine, so that clients use it as they use a ClickHouse server.

Serves `GET /ping`, `GET /metrics` (the password as bearer token), and `GET` and `POST /` with `query`, `database`,
`default_format`, `param_*`, settings as parameters, a body that continues the query or is its data (gzip, deflate, zstd, lz4),
multipart forms, and errors with ClickHouse's code in `X-ClickHouse-Exception-Code`. Not served: sessions (each request stands
alone: a `SET` or a temporary table lasts one request), compressed answers, external tables, roles.
"""

import asyncio
import functools
import hmac
import json
import signal
import time
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

import structlog
from aiohttp import web
from prometheus_client.exposition import choose_encoder

from .. import access
from ..errors import DAMAGED, StoreInputError
from . import body
from .engine import Engine, EngineError, Stream
from .instruments import Instruments
from .statement import Insert, Query, parse

log = structlog.get_logger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

USER = "weir"
DEFAULT_DATABASE = "default"
MAX_BODY_BYTES = 256 * 2**20
"""Limit of one insert's data, also after decompression. A batch of 100,000 spans is some 40 MiB."""
READERS, WRITERS = 6, 2
"""Statements of each kind that run at once. Reads never wait for inserts, and inserts never for reads."""
MAX_WAITING = 64
"""Statements that wait or run. Further ones are refused with 503."""
MAX_STREAM_S = 300.0
"""Seconds in which a client must read a result, because a client that stops reading holds a place."""
MEND_AFTER_S = 240.0
"""For so long after its start the store goes on where data is damaged. A start sets it aside; the sources of a damaged merge, which the
engine keeps for 480 s, then take its place."""
DEFAULTS = {"max_execution_time": "120"}
"""Settings of statements that do not set them. Seconds."""

_TRANSPORT = frozenset(
    {
        "query", "database", "default_format", "query_id", "session_id", "session_timeout", "session_check", "quota_key", "role",
        "compress", "decompress", "buffer_size", "wait_end_of_query", "client_protocol_version", "user", "password",
        "send_progress_in_http_headers", "http_headers_progress_interval_ms", "enable_http_compression",
        "cancel_http_readonly_queries_on_client_close",
    }
)  # fmt: skip
"""Parameters for the server. All others are settings of the statement."""

_STATUS = {
    60: 404, 81: 404, 46: 404, 115: 404,  # unknown table, database, function, setting
    62: 400, 47: 400, 53: 400, 6: 400, 27: 400, 117: 400, 36: 400, 26: 400, 386: 400, 456: 400, 457: 400,
    159: 408, 202: 503, 241: 500, 516: 403, 497: 403,
}  # fmt: skip
"""HTTP status by ClickHouse code, as ClickHouse's own server answers; others are 500."""


class _DeniedError(Exception):
    """Permanent: the user or the password is wrong."""


class _Handler:
    def __init__(self, engine: Engine, password: str, folder: Path) -> None:
        self._engine, self._folder, self._began_s = engine, str(folder.resolve()), time.monotonic()
        self._password = password.encode()
        self._readers, self._writers = asyncio.Semaphore(READERS), asyncio.Semaphore(WRITERS)
        self._waiting = 0
        self._instruments = Instruments(lambda: self._waiting)
        self._threads = ThreadPoolExecutor(READERS + WRITERS + 1, thread_name_prefix="store")

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)

    async def ping(self, _: web.Request) -> web.Response:
        return web.Response(text="Ok.\n")

    async def metrics(self, request: web.Request) -> web.Response:
        given = request.headers.get("Authorization", "").encode()
        if not hmac.compare_digest(given, b"Bearer " + self._password):
            return web.Response(status=401, text="send Authorization: Bearer with the store's password\n")
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(self._instruments.registry), headers={"Content-Type": content_type})

    async def query(self, request: web.Request) -> web.StreamResponse:
        try:
            self._authenticate(request)
            if self._waiting >= MAX_WAITING:
                return _refusal(
                    503, 202, "TOO_MANY_SIMULTANEOUS_QUERIES", "too many statements are waiting; try again in a second"
                )
            self._waiting += 1
            try:
                return await self._serve(request)
            finally:
                self._waiting -= 1
        except _DeniedError as denied:
            return _refusal(403, 516, "AUTHENTICATION_FAILED", str(denied))
        except body.TooLargeError as error:
            return _refusal(413, 1003, "REQUEST_TOO_LARGE", str(error))
        except body.UnreadableError as error:
            return _refusal(400, 354, "INFLATE_FAILED", str(error))
        except StoreInputError as error:
            return _refusal(400, error.code or 36, "BAD_ARGUMENTS", str(error))
        except EngineError as error:
            self._end_if_damaged(error)
            headers = {"X-ClickHouse-Exception-Code": str(error.code)}
            return web.Response(status=_STATUS.get(error.code, 500), text=f"{error}\n", headers=headers)

    def _end_if_damaged(self, error: EngineError) -> None:
        """Ends the process in order where its data is damaged: telemetry starts it again."""
        damaged = error.code in DAMAGED and self._folder in str(error)  # an insert's data may be damaged too
        if damaged and time.monotonic() - self._began_s >= MEND_AFTER_S:
            self._began_s = time.monotonic()
            log.error("store.damaged", reason=str(error)[:500], remedy="it ends, and sets that aside when it starts")
            signal.raise_signal(signal.SIGTERM)

    def _authenticate(self, request: web.Request) -> None:
        user, key = request.headers.get("X-ClickHouse-User"), request.headers.get("X-ClickHouse-Key", "")
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if user is None and scheme.lower() == "basic":
            try:
                user, _, key = b64decode(token, validate=True).decode().partition(":")
            except ValueError:
                user, key = None, ""
        same = hmac.compare_digest(key.encode(), self._password)
        if user != USER or not same:
            raise _DeniedError(
                f"user {user!r} is unknown or the password is wrong;"
                f" the password is in the file {access.PASSWORD_FILE} of WEIR_HOME"
            )

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        read = await self._read(request)
        headers = _headers(read.given)
        if isinstance(read.statement, Insert):
            async with self._writers:
                with self._instruments.timed("insert"):
                    rows = await self._in_thread(self._engine.insert, read.statement, read.database, read.settings)
            self._instruments.wrote(rows)
            summary = json.dumps({"written_rows": str(rows)})
            return web.Response(headers={"X-ClickHouse-Summary": summary, **headers})
        headers["X-ClickHouse-Format"] = read.statement.format
        headers["Content-Type"] = "application/octet-stream"
        to_run = read.statement, read.database, read.settings, read.params
        async with self._readers:
            with self._instruments.timed("read"):
                if read.statement.streams and read.given.get("wait_end_of_query") != "1":
                    return await self._stream(request, headers, self._engine.stream(*to_run))
                return web.Response(body=await self._in_thread(self._engine.run, *to_run), headers=headers)

    async def _read(self, request: web.Request) -> "_Statement":
        given: dict[str, str] = dict(request.query)
        data = b""
        if request.content_type == "multipart/form-data":
            form = await request.post()
            given |= {name: value for name, value in form.items() if isinstance(value, str)}
        elif request.method == "POST":
            data = await body.read(request.content, request.headers.get("Content-Encoding", ""), MAX_BODY_BYTES)
        default_format = given.get("default_format") or request.headers.get("X-ClickHouse-Format") or "TabSeparated"
        return _Statement(
            statement=parse(given.get("query", ""), data, default_format),
            database=given.get("database") or request.headers.get("X-ClickHouse-Database") or DEFAULT_DATABASE,
            settings=DEFAULTS
            | {name: value for name, value in given.items() if name not in _TRANSPORT and name[:6] != "param_"},
            params={name[6:]: value for name, value in given.items() if name[:6] == "param_"},
            given=given,
        )

    async def _stream(self, request: web.Request, headers: Mapping[str, str], blocks: Stream) -> web.StreamResponse:
        """Send the result block by block. After the first, a failure aborts the connection, so that no client takes it for the end."""
        response = web.StreamResponse(headers=headers)
        try:
            async with asyncio.timeout(MAX_STREAM_S):
                block = await self._in_thread(blocks.next)
                await response.prepare(request)
                while block is not None:
                    await response.write(block)
                    block = await self._in_thread(blocks.next)
                await response.write_eof()
        except (EngineError, TimeoutError) as error:
            if isinstance(error, EngineError) and not response.prepared:
                raise
            log.warning("store.stream_aborted", reason=str(error) or f"not read to its end in {MAX_STREAM_S} s")
            if request.transport is not None:
                request.transport.abort()
        except ConnectionError:
            pass  # the client left; its query is cancelled below
        finally:
            await asyncio.shield(self._in_thread(blocks.close))
        return response

    async def _in_thread(self, function: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        call = functools.partial(function, *arguments, **named)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)


@dataclass(frozen=True, slots=True)
class _Statement:
    """What a request runs, where, and with which settings and bound parameters."""

    statement: Insert | Query
    database: str
    settings: dict[str, str]
    params: dict[str, str]
    given: dict[str, str]


def _headers(given: Mapping[str, str]) -> dict[str, str]:
    query_id = given.get("query_id", "")
    return {"X-ClickHouse-Query-Id": query_id} if query_id.isprintable() and query_id else {}


def _refusal(status: int, code: int, name: str, message: str) -> web.Response:
    headers = {"X-ClickHouse-Exception-Code": str(code)}
    if status == 503:
        headers["Retry-After"] = "1"
    return web.Response(status=status, text=f"Code: {code}. DB::Exception: {message}. ({name})\n", headers=headers)


@asynccontextmanager
async def serve_embedded(home: Path, port: int = 0) -> AsyncIterator[str]:
    """Open `home`/store and serve it on the loopback interface until the block ends, at the DSN that it yields. Port 0 picks a
    free one.

    Makes `home`/store-password (0600) where it is absent. Tables are made by `migrate`. Raises StoreUnavailableError where another
    process has the folder open, OSError where the port is taken.
    """
    password = access.password(home)
    engine = await asyncio.to_thread(Engine, home / "store", READERS + WRITERS)
    handler = _Handler(engine, password, home / "store")
    app = web.Application(client_max_size=MAX_BODY_BYTES)
    app.router.add_get("/ping", handler.ping)
    app.router.add_get("/metrics", handler.metrics)
    app.router.add_get("/", handler.query)
    app.router.add_post("/", handler.query)
    runner = web.AppRunner(
        app,
        access_log=None,
        auto_decompress=False,
        max_line_size=64 * 1024,
        max_field_size=64 * 1024,
        shutdown_timeout=5.0,
    )
    try:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        bound = runner.addresses[0][1]
        log.info("store.serving", port=bound, folder=str(home / "store"))
        yield access.dsn(home, bound)
    finally:
        await runner.cleanup()
        await asyncio.to_thread(handler.close)
        await asyncio.to_thread(engine.close)
