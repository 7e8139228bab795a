"""Requests of Prometheus remote write."""

import time
from typing import Any

import pyarrow as pa

from controlplane.telemetry.ingest.remote_write.http import PATH
from controlplane.telemetry.ingest.remote_write.messages import Request
from tests.support.telemetry.process import Running
from tests.support.telemetry.process import request as http

PROTOBUF = "application/x-protobuf"
_codec = pa.Codec("snappy")
NOW_MS = time.time_ns() // 1_000_000


def compress(data: bytes) -> bytes:
    return bytes(_codec.compress(data, asbytes=True))


def one(name: str, *samples: tuple[int, float], **labels: str) -> Any:
    """A request with one series, whose samples are (ms after NOW_MS, value)."""
    made = Request()
    found = made.series.add()
    for label, text in sorted({"__name__": name, **labels}.items()):
        found.labels.add(name=label, value=text)
    for after, value in samples:
        found.samples.add(value=value, timestamp=NOW_MS + after)
    return made


def write(telemetry: Running, message: Any, kind: str = PROTOBUF, **headers: str) -> tuple[int, str, dict[str, str]]:
    body = message if isinstance(message, bytes) else compress(message.SerializeToString())
    given = {"Content-Type": kind, "Content-Encoding": "snappy", "X-Prometheus-Remote-Write-Version": "0.1.0"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    code, answer, said = http("POST", telemetry.url + PATH, body, given)
    return code, answer.decode(), said
