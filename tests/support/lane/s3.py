"""A server that speaks S3's protocol, and a bucket of it."""

import http.client
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest.mock import patch

from deploy.local.ports import LOOPBACK, free_port

if TYPE_CHECKING:  # most runs need no S3, and all import this
    from moto.server import ThreadedMotoServer

BUCKET = "weir"


class S3:
    """It keeps what it has while it is away."""

    def __init__(self) -> None:
        self._port = free_port()
        self._server: ThreadedMotoServer | None = None

    def start(self) -> None:
        from moto.server import ThreadedMotoServer

        self._server = ThreadedMotoServer(ip_address=LOOPBACK, port=self._port, verbose=False)
        self._server.start()

    def stop(self) -> None:
        assert self._server is not None
        self._server.stop()

    def make_bucket(self) -> None:
        connection = http.client.HTTPConnection(LOOPBACK, self._port)
        connection.request("PUT", f"/{BUCKET}")
        assert connection.getresponse().status == 200
        connection.close()

    @property
    def environment(self) -> dict[str, str]:
        """Where it is and how to log in."""
        return {
            "AWS_ENDPOINT_URL": f"http://{LOOPBACK}:{self._port}",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "of-the-tests",
            "AWS_SECRET_ACCESS_KEY": "secret-of-the-tests",
        }


@contextmanager
def s3() -> Iterator[S3]:
    """Until the block ends. The environment says where it is."""
    server = S3()
    server.start()
    try:
        server.make_bucket()
        with patch.dict(os.environ, server.environment):
            yield server
    finally:
        server.stop()
