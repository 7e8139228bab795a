"""A proxy in front of an API server, with the faults that a test names. It notes every request that it gets."""

import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.support.cluster.control_plane import ControlPlane, kubeconfig

HANG, DROP, LOSE_ANSWER = "hang", "drop", "lose answer"
"""No answer; the connection closes; the API server does it, and its answer does not arrive. What it refuses (another status of the object
has come first, say) is answered, and counts as no hit."""


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    watch: bool


Which = Callable[[Request], bool]


@dataclass(slots=True)
class Fault:
    """What becomes of the requests that `which` picks: one of the words above, or a status with its headers."""

    which: Which
    what: str | int
    headers: dict[str, str] = field(default_factory=dict)
    times: int = -1  # how often; -1 is always
    hits: int = 0


def everything(_: Request) -> bool:
    return True


def writes(request: Request) -> bool:
    return request.method != "GET"


def watches(request: Request) -> bool:
    return request.watch


class Proxy:
    """Speaks plain HTTP, and calls the API server as its administrator, or as the user whose certificate it has."""

    def __init__(self, upstream: ControlPlane, credentials: str = "kubeconfig") -> None:
        self.requests: list[Request] = []
        self.answers: list[tuple[Request, int]] = []
        """What the API server said, whether or not its answer arrived. Not of dry runs."""
        self._upstream = upstream
        self._faults: list[Fault] = []
        self._watching: set[http.client.HTTPConnection] = set()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._context = ssl.create_default_context(cafile=upstream.folder / "ca.crt")
        self._context.load_cert_chain(upstream.folder / f"{credentials}.crt", upstream.folder / f"{credentials}.key")
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                proxy._handle(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815

            def log_message(self, *_: object) -> None:
                """Nothing is written."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def kubeconfig(self, folder: Path) -> Path:
        """A kubeconfig that leads here."""
        path = folder / f"proxy-{self._server.server_port}"
        path.write_text(kubeconfig({"server": f"http://127.0.0.1:{self._server.server_port}"}, "nobody", {}))
        return path

    @contextmanager
    def fault(self, which: Which, what: str | int, times: int = -1, **headers: str) -> Iterator[Fault]:
        """While it lasts, these requests fail so, unless a later fault picks them too. Names of headers have _ for -."""
        fault = Fault(which, what, {name.replace("_", "-"): value for name, value in headers.items()}, times)
        self._faults.append(fault)
        try:
            yield fault
        finally:
            self._faults.remove(fault)

    def cut_watches(self) -> None:
        """Every watch ends in the middle."""
        with self._lock:
            for connection in self._watching:
                with suppress(OSError, AttributeError, TypeError):
                    # Not `SSLSocket.shutdown`, which also takes TLS off it: what has come would be read as it is.
                    socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)

    def close(self) -> None:
        self._ended.set()
        self.cut_watches()
        self._server.shutdown()
        self._server.server_close()

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        url = urlsplit(handler.path)
        request = Request(handler.command, url.path, "watch" in parse_qs(url.query))
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        self.requests.append(request)
        with self._lock:
            fault = next((fault for fault in reversed(self._faults) if fault.times != 0 and fault.which(request)), None)
            if fault is not None:
                fault.times -= fault.times > 0
                fault.hits += 1
        with suppress(OSError, http.client.HTTPException, ValueError):
            if fault is None or fault.what == LOSE_ANSWER:
                self._forward(handler, request, body, fault)
            elif isinstance(fault.what, int):
                self._refuse(handler, fault)
            elif fault.what == HANG:
                self._ended.wait(60)
        if fault is not None and fault.what in (HANG, DROP):
            handler.close_connection = True

    def _refuse(self, handler: BaseHTTPRequestHandler, fault: Fault) -> None:
        handler.send_response(int(fault.what))
        for name, value in fault.headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    def _forward(self, handler: BaseHTTPRequestHandler, request: Request, body: bytes, losing: Fault | None) -> None:
        upstream = http.client.HTTPSConnection("127.0.0.1", self._upstream.port, context=self._context, timeout=60)
        kept = {name: value for name, value in handler.headers.items() if name in ("Accept", "Content-Type")}
        try:
            upstream.request(handler.command, handler.path, body or None, kept)
            answer = upstream.getresponse()
            if "dryRun" not in handler.path:
                self.answers.append((request, answer.status))
            if losing is not None and answer.status < 400:
                answer.read()
                handler.close_connection = True
                return
            if losing is not None:
                with self._lock:
                    losing.times += losing.times >= 0
                    losing.hits -= 1
            handler.send_response(answer.status)
            for name in ("Content-Type", "Retry-After"):
                if answer.headers[name]:
                    handler.send_header(name, answer.headers[name])
            if request.watch:
                self._stream(handler, upstream, answer)
            else:
                data = answer.read()
                handler.send_header("Content-Length", str(len(data)))
                handler.end_headers()
                handler.wfile.write(data)
        finally:
            upstream.close()

    def _stream(
        self, handler: BaseHTTPRequestHandler, upstream: http.client.HTTPConnection, answer: http.client.HTTPResponse
    ) -> None:
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.close_connection = True
        with self._lock:
            self._watching.add(upstream)
        try:
            while line := answer.readline():
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                handler.wfile.flush()
            if answer.isclosed() or answer.length in (0, None):
                handler.wfile.write(b"0\r\n\r\n")
        finally:
            with self._lock:
                self._watching.discard(upstream)


Rule = tuple[str, str, str, str]
"""Verb, API group, resource, name of an object."""


def used_by(request: Request) -> Rule:
    """https://kubernetes.io/docs/reference/access-authn-authz/authorization/#determine-the-request-verb"""
    parts = request.path.strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    rest = rest[2:] if rest[0] == "namespaces" else rest
    name, resource = rest[1] if len(rest) > 1 else "", "/".join([rest[0], *rest[2:]])
    reads = "watch" if request.watch else "get" if name else "list"
    verb = {"GET": reads, "PATCH": "patch", "PUT": "update", "POST": "create", "DELETE": "delete"}[request.method]
    return verb, group, resource, name if name.startswith("weir-") else ""
