"""Requests of Prometheus remote write."""

import time
from typing import Any

import pyarrow as pa

from controlplane.telemetry.ingest.remote_write.http import PATH
from controlplane.telemetry.ingest.remote_write.messages import Request1, Request2
from tests.support.telemetry.process import Running
from tests.support.telemetry.process import request as http

V1, V2 = "application/x-protobuf", "application/x-protobuf;proto=io.prometheus.write.v2.Request"
_codec = pa.Codec("snappy")
NOW_MS = time.time_ns() // 1_000_000


def compress(data: bytes) -> bytes:
    return bytes(_codec.compress(data, asbytes=True))


def one(name: str, *samples: tuple[int, float], **labels: str) -> Any:
    """A 1.0 request with one series, whose samples are (ms after NOW_MS, value)."""
    made = Request1()
    found = made.series.add()
    for label, text in sorted({"__name__": name, **labels}.items()):
        found.labels.add(name=label, value=text)
    for after, value in samples:
        found.samples.add(value=value, timestamp=NOW_MS + after)
    return made


def two(name: str, *samples: tuple[int, float], start_ms: int = 0, kind: int = 1, **labels: str) -> Any:
    """The same as a 2.0 request."""
    made = Request2(symbols=[""])
    found = made.series.add()
    for pair in sorted({"__name__": name, **labels}.items()):
        for text in pair:
            made.symbols.append(text)
            found.labels_refs.append(len(made.symbols) - 1)
    found.metadata.type = kind
    for after, value in samples:
        found.samples.add(value=value, timestamp=NOW_MS + after, start_timestamp=start_ms)
    return made


def write(telemetry: Running, message: Any, kind: str = V1, **headers: str) -> tuple[int, str, dict[str, str]]:
    body = message if isinstance(message, bytes) else compress(message.SerializeToString())
    given = {"Content-Type": kind, "Content-Encoding": "snappy", "X-Prometheus-Remote-Write-Version": "0.1.0"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    code, answer, said = http("POST", telemetry.url + PATH, body, given)
    return code, answer.decode(), said
