"""`/metrics` of a process that serves nothing else: a small HTTP server in a thread of its own, for those who know the token."""

import hmac
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import REGISTRY
from prometheus_client.exposition import choose_encoder

READ_TIMEOUT_S = 10.0


def serve(host: str, port: int, token: Callable[[], str]) -> ThreadingHTTPServer:
    """Answers GET /metrics (with `Authorization: Bearer TOKEN`; nobody while there is no token) and /healthz until `shutdown()`.

    Raises OSError where the address cannot be bound.
    """

    class Handler(BaseHTTPRequestHandler):
        timeout = READ_TIMEOUT_S

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/healthz":
                self._answer(200, b"ok\n", "text/plain")
            elif path != "/metrics":
                self._answer(404, b"only /metrics and /healthz are here\n", "text/plain")
            elif not _allowed(self.headers.get("Authorization", ""), token()):
                self._answer(401, b"send Authorization: Bearer TOKEN\n", "text/plain", ("WWW-Authenticate", "Bearer"))
            else:
                encode, content_type = choose_encoder(self.headers.get("Accept", ""))
                self._answer(200, encode(REGISTRY), content_type)

        def _answer(self, status: int, body: bytes, content_type: str, *headers: tuple[str, str]) -> None:
            self.send_response(status)
            for name, value in (("Content-Type", content_type), ("Content-Length", str(len(body))), *headers):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Asked every few seconds: not worth a line."""

    server = ThreadingHTTPServer((host, port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server


def _allowed(authorization: str, token: str) -> bool:
    return bool(token) and hmac.compare_digest(authorization.encode(), f"Bearer {token}".encode())
