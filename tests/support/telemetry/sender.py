"""Sends traces as an exporter does, one request after the other."""

import random
import threading
import time
import urllib.error
from http.client import HTTPException

from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.store import Store
from tests.support.soak import sized
from tests.support.telemetry.otlp_payloads import request
from tests.support.telemetry.process import Running

SPANS_OF_A_TRACE = 4
PAUSE_S = sized(0.05, soak=0.0)
"""Between two requests. A machine that does nothing else while a store is away leaves other tests little."""


class Sender(threading.Thread):
    """Sends each request until it is acknowledged, as an exporter does."""

    def __init__(self, telemetry: Running, seed: int) -> None:
        super().__init__(daemon=True)
        self._telemetry, self._source, self._ended = telemetry, random.Random(seed), threading.Event()
        self.acknowledged: dict[str, int] = {}  # spans by trace
        self.resent = 0

    def run(self) -> None:
        while not self._ended.wait(PAUSE_S):
            traces = [self._source.randbytes(16) for _ in range(self._source.randint(1, 20))]
            whole = request(len(traces) * SPANS_OF_A_TRACE, trace_ids=traces, traces=len(traces))
            bodies = [whole.SerializeToString()]
            if self._source.random() < 0.3:  # a trace in two requests, the second of which may come late
                spans = whole.resource_spans[0].scope_spans[0].spans
                rest = request(1)
                del rest.resource_spans[0].scope_spans[0].spans[:]
                rest.resource_spans[0].scope_spans[0].spans.append(spans.pop())
                bodies = [whole.SerializeToString(), rest.SerializeToString()]
            acknowledged = [self._send(body) for body in bodies]
            if all(acknowledged):
                self.acknowledged |= {trace.hex(): SPANS_OF_A_TRACE for trace in traces}

    def _send(self, body: bytes) -> bool:
        while not self._ended.is_set():
            try:
                if self._telemetry.post(body)[0] == 200:
                    return True
            except (OSError, urllib.error.URLError, HTTPException):
                self.resent += 1
                time.sleep(0.02)
        return False

    def end(self) -> None:
        self._ended.set()
        self.join()


def all_there_once(store: Store, sender: Sender, began_ns: int) -> None:
    """Each acknowledged trace has all its spans, and is one request."""
    known = sorted(sender.acknowledged)
    assert known
    for at in range(0, len(known), 1000):
        some = known[at : at + 1000]
        stored = store.requests.spans_of(some)
        assert {trace: len(spans) for trace, spans in stored.items()} == dict.fromkeys(some, SPANS_OF_A_TRACE)
    counted = store.latency.report(Window(began_ns - 10**9, time.time_ns()), {"service": ("checkout",)}).requests
    assert len(known) <= counted <= len(known) + 20, "each trace is one request; the last was never acknowledged"
