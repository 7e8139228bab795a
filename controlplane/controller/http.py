"""The controller's `/healthz`, `/readyz` and `/metrics`."""

import hmac
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import REGISTRY
from prometheus_client.exposition import choose_encoder

from controlplane.config import Config
from controlplane.controller.loop import Controller

STUCK_AFTER_S = 60.0


@contextmanager
def serve(config: Config, controller: Controller) -> Iterator[int]:
    """Answers at the settings' address while the block runs; gives the port."""

    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            match self.path.partition("?")[0]:
                case "/healthz":
                    self._answer(200, b"ok\n")
                case "/readyz":
                    self._answer(*_ready(controller))
                case "/metrics" if _may_read(config.metrics_token, self.headers.get("Authorization", "")):
                    encode, content_type = choose_encoder(self.headers.get("Accept", ""))
                    self._answer(200, encode(REGISTRY), content_type)
                case "/metrics":
                    self._answer(401, b"send Authorization: Bearer with WEIR_METRICS_TOKEN\n")
                case _:
                    self._answer(404, b"there are /healthz, /readyz and /metrics\n")

        def _answer(self, status: int, body: bytes, content_type: str = "text/plain; charset=utf-8") -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Probes come every few seconds: they are not written down."""

    server = ThreadingHTTPServer((config.controller_host, config.controller_port), Handler)
    thread = threading.Thread(target=server.serve_forever, name="http", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def _ready(controller: Controller) -> tuple[int, bytes]:
    """It has done a tick, and lately."""
    if not controller.last_step:
        return 503, b"no tick yet\n"
    age_s = time.monotonic() - controller.last_step
    return (200, b"ready\n") if age_s < STUCK_AFTER_S else (503, f"the last tick was {age_s:.0f} s ago\n".encode())


def _may_read(token: str, header: str) -> bool:
    return not token or hmac.compare_digest(header.encode(), f"Bearer {token}".encode())
