"""A server that speaks S3's protocol, and a bucket of it."""

import http.client
import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from moto.server import ThreadedMotoServer

from deploy.local.ports import LOOPBACK

BUCKET = "weir"


@contextmanager
def s3() -> Iterator[dict[str, str]]:
    """Until the block ends. Yields where it is and how to log in, as the environment says it, which has it too."""
    server = ThreadedMotoServer(ip_address=LOOPBACK, port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        connection = http.client.HTTPConnection(host, port)
        connection.request("PUT", f"/{BUCKET}")
        assert connection.getresponse().status == 200
        connection.close()
        where = {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "of-the-tests",
            "AWS_SECRET_ACCESS_KEY": "secret-of-the-tests",
        }
        with patch.dict(os.environ, where):
            yield where
    finally:
        server.stop()
