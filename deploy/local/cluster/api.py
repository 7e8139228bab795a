"""Serves the local cluster over HTTP on loopback: what `controlplane/fleet/clusters/local.py` calls, and a hand may.

    GET  /v1/pools?since=VERSION&wait_s=25    with `since`, answers once the state is another than that
    PUT  /v1/pools/NAME/scale                 ScaleRequest
    PUT  /v1/pools/NAME/removal               RemovalRequest

Each answers with the state. Every request carries the token in the home's `cluster-token` (`Authorization: Bearer …`). The values
are those of `controlplane/fleet/core/local_cluster.py`, as JSON.
"""

import re
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

import msgspec

from controlplane.fleet.core.local_cluster import POOLS_PATH, Refusal, RemovalRequest, ScaleRequest
from deploy.local.cluster.replicas import LocalCluster, UnknownNameError
from deploy.local.ports import LOOPBACK

MAX_WAIT_S = 60.0
MAX_BYTES = 64 << 10
SILENT_S = 75.0  # a connection without a request for so long is closed

_OF_A_POOL = re.compile(re.escape(POOLS_PATH) + r"/([^/]+)/(scale|removal)")


@contextmanager
def serving(cluster: LocalCluster, port: int, token: str) -> Iterator[None]:
    """Serve `cluster` at `port` of loopback while the block runs. Raises OSError where the port is taken."""

    class Bound(Handler):
        local_cluster = cluster
        authorization = f"Bearer {token}".encode()

    server = ThreadingHTTPServer((LOOPBACK, port), Bound)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="cluster-api", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    local_cluster: ClassVar[LocalCluster]
    authorization: ClassVar[bytes]

    protocol_version = "HTTP/1.1"
    timeout = SILENT_S
    disable_nagle_algorithm = True

    def handle(self) -> None:
        with suppress(ConnectionError):  # whoever called has ended, as all parts do at Ctrl-C
            super().handle()

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if not self._is_authorized():
            return
        if url.path != POOLS_PATH:
            self._refuse(HTTPStatus.NOT_FOUND, f"there is no {url.path}: ask for {POOLS_PATH}")
            return
        query = parse_qs(url.query)
        try:
            wait_s = min(max(float(query.get("wait_s", ["0"])[0]), 0.0), MAX_WAIT_S)
        except ValueError:
            self._refuse(HTTPStatus.UNPROCESSABLE_ENTITY, f"wait_s is {query['wait_s'][0]!r}: give seconds, such as 25")
            return
        since = query.get("since", [""])[0]
        self._answer(HTTPStatus.OK, self.local_cluster.wait(since, wait_s) if since else self.local_cluster.state())

    def do_PUT(self) -> None:
        if not self._is_authorized():
            return
        path, length = urlsplit(self.path).path, self.headers.get("Content-Length", "")
        match = _OF_A_POOL.fullmatch(path)
        if match is None:
            self.close_connection = True  # the body is not read
            self._refuse(HTTPStatus.NOT_FOUND, f"there is no {path}: put {POOLS_PATH}/NAME/scale or …/removal")
            return
        if not length.isdecimal() or int(length) > MAX_BYTES:
            self.close_connection = True  # the body is not read
            self._refuse(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                f"Content-Length is {length!r}: send at most {MAX_BYTES} bytes, and say how many",
            )
            return
        body = self.rfile.read(int(length))
        try:
            if match[2] == "scale":
                self.local_cluster.scale(match[1], msgspec.json.decode(body, type=ScaleRequest))
            else:
                self.local_cluster.prefer_removal(match[1], msgspec.json.decode(body, type=RemovalRequest))
        except UnknownNameError as error:
            self._refuse(HTTPStatus.NOT_FOUND, str(error))
        except msgspec.DecodeError as error:
            self._refuse(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
        else:
            self._answer(HTTPStatus.OK, self.local_cluster.state())

    def _is_authorized(self) -> bool:
        if secrets.compare_digest(self.headers.get("Authorization", "").encode(), self.authorization):
            return True
        self.close_connection = True  # a body is not read
        self._refuse(HTTPStatus.UNAUTHORIZED, "the token is not that of the home's cluster-token")
        return False

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        self._answer(status, Refusal(message))

    def _answer(self, status: HTTPStatus, document: object) -> None:
        body = msgspec.json.encode(document)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged: the supervisor says what it starts and ends."""
