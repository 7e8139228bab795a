"""A small HTTP server in a thread of its own, for a process that serves nothing else: `/healthz`, `/readyz` and `/metrics`."""

import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import REGISTRY
from prometheus_client.exposition import choose_encoder

from controlplane.config import Config
from inference.contract.metrics_access import may_read_metrics
from inference.contract.tls.certificate import ServerCertificate, TlsError

READ_TIMEOUT_S = 10.0

Ready = Callable[[], tuple[int, str]]


def serve(
    host: str, port: int, token: str, ready: Ready | None = None, shown: ServerCertificate | None = None
) -> ThreadingHTTPServer:
    """Answers until `shutdown()`, over TLS where a certificate is `shown`. `token` is what readers of metrics send; `ready` gives the
    status and text of /readyz.

    Raises OSError where the address cannot be bound.
    """

    class Handler(BaseHTTPRequestHandler):
        timeout = READ_TIMEOUT_S

        def handle(self) -> None:
            with suppress(ConnectionError):  # a scraper that was ended is no news
                super().handle()

        def do_GET(self) -> None:
            match self.path.partition("?")[0]:
                case "/healthz":
                    self._answer(200, "ok")
                case "/readyz" if ready is not None:
                    self._answer(*ready())
                case "/metrics" if self._may_read_metrics():
                    encode, content_type = choose_encoder(self.headers.get("Accept", ""))
                    self._send(200, encode(REGISTRY), content_type)
                case "/metrics":
                    self._answer(401, how_to_read_metrics(token), ("WWW-Authenticate", "Bearer"))
                case _:
                    self._answer(404, f"only /healthz{', /readyz' if ready else ''} and /metrics are here")

        def _may_read_metrics(self) -> bool:
            headers = {name.lower().encode("latin-1"): value.encode("latin-1") for name, value in self.headers.items()}
            return may_read_metrics(token, self.client_address[0], headers)

        def _answer(self, status: int, text: str, *headers: tuple[str, str]) -> None:
            self._send(status, f"{text}\n".encode(), "text/plain; charset=utf-8", *headers)

        def _send(self, status: int, body: bytes, content_type: str, *headers: tuple[str, str]) -> None:
            self.send_response(status)
            for name, value in (("Content-Type", content_type), ("Content-Length", str(len(body))), *headers):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Probes and scrapes come every few seconds: they are not logged."""

    class Server(ThreadingHTTPServer):
        def finish_request(self, request: Any, client_address: Any) -> None:
            """In the connection's own thread: who does not shake hands delays nobody."""
            if shown is None:
                super().finish_request(request, client_address)
                return
            shown.reload()
            request.settimeout(READ_TIMEOUT_S)
            with suppress(OSError), shown.context.wrap_socket(request, server_side=True) as secured:
                super().finish_request(secured, client_address)

    server = Server((host, port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server


def serve_by(config: Config, setting: str, host: str, port: int, ready: Ready | None = None) -> ThreadingHTTPServer:
    """As `serve`, for a process that begins: it ends with a sentence where the address, named by `setting`, or a file cannot be used."""
    try:
        shown = ServerCertificate.named(config.metrics_certificate, config.metrics_key, None, "WEIR_METRICS")
        return serve(host, port, config.metrics_token, ready, shown)
    except TlsError as error:
        raise SystemExit(f"Weir cannot start: {error}") from None
    except OSError as error:
        raise SystemExit(
            f"Weir cannot start: {host}:{port} cannot be bound ({error.strerror}): stop what listens there, or change {setting}"
        ) from None


def how_to_read_metrics(token: str) -> str:
    if token:
        return "send Authorization: Bearer with WEIR_METRICS_TOKEN"
    return "set WEIR_METRICS_TOKEN here and send it: without one, only this machine may read metrics"
