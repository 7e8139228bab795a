"""Sends OTLP over HTTP as fast as it is acknowledged or at a pace; follows sampled traces until they can be queried."""

import http.client
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from tests.bench.loads.traces import Template, template
from tests.bench.processes import BenchError

TRACES_PER_REQUEST = 64  # about 540 spans: what the OpenTelemetry SDK's batch processor sends at once
_TEMPLATES = 16
_RETRY = {429, 502, 503, 504}
_PATIENCE_S = 30


class _NotTakenError(Exception):
    """The load was over before the server took a request: not acknowledged, so not counted."""


@dataclass
class Sent:
    """What was acknowledged, how often the server asked for patience, and what it had not taken by the end.

    `samples` are traces with the monotonic time at which their request was begun.
    """

    spans: int = 0
    requests: int = 0
    refused: int = 0
    given_up: int = 0
    seconds: float = 0.0
    samples: dict[bytes, float] = field(default_factory=dict)


def templates(seed: int = 7) -> list[Template]:
    rng = np.random.default_rng(seed)
    return [template(rng, TRACES_PER_REQUEST) for _ in range(_TEMPLATES)]


class Load:
    """`senders` connections to `/v1/traces` on `port`, each with one request in flight. `sent` grows while it runs."""

    def __init__(
        self, port: int, path: str = "/v1/traces", headers: Mapping[str, str] | None = None, senders: int = 4
    ) -> None:
        self._port, self._path, self._senders = port, path, senders
        self._headers = {"Content-Type": "application/x-protobuf", **(headers or {})}
        self._templates = templates()
        self._lock = threading.Lock()
        self.sent = Sent()

    def run(self, seconds: float, spans_per_s: float | None = None, sample_every_s: float = 0.2) -> Sent:
        """Load for `seconds`. What is refused for a while (429, 503 and their like) is sent again."""
        sent = self.sent
        start = time.monotonic()
        failures: list[BaseException] = []
        planned = 0
        sampled = 0.0

        def slot(spans: int) -> float:
            """When a request of `spans` may leave."""
            nonlocal planned
            with self._lock:
                due = start + (planned / spans_per_s if spans_per_s else 0)
                planned += spans
                return due

        def send(number: int) -> None:
            nonlocal sampled
            rng = np.random.default_rng((number, time.time_ns()))
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=seconds + _PATIENCE_S)
            try:
                while time.monotonic() - start < seconds:
                    chosen = self._templates[int(rng.integers(_TEMPLATES))]
                    time.sleep(max(0.0, slot(chosen.spans) - time.monotonic()))
                    body, trace_ids = chosen.render(rng, time.time_ns())
                    began = time.monotonic()
                    refused = self._deliver(connection, body, start + seconds)
                    with self._lock:
                        sent.refused += refused
                        sent.spans += chosen.spans
                        sent.requests += 1
                        if began - sampled >= sample_every_s:
                            sampled = began
                            sent.samples[trace_ids[0]] = began
            except _NotTakenError:
                with self._lock:
                    sent.given_up += 1
            except BaseException as error:  # noqa: BLE001  (raised again by whoever waits)
                failures.append(error)
            finally:
                connection.close()

        threads = [threading.Thread(target=send, args=(number,), daemon=True) for number in range(self._senders)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        sent.seconds = time.monotonic() - start
        return sent

    def _deliver(self, connection: http.client.HTTPConnection, body: bytes, until: float) -> int:
        """How often it was refused before it was acknowledged. Raises _NotTakenError when it is not by `until`, and some patience."""
        refused = 0
        while True:
            try:
                connection.request("POST", self._path, body, self._headers)
                response = connection.getresponse()
                said = response.read()
            except TimeoutError as error:
                raise _NotTakenError from error
            if response.status == 200:
                return refused
            if response.status not in _RETRY:
                raise BenchError(f"OTLP on port {self._port} answered {response.status}: {said[:300]!r}")
            refused += 1
            if time.monotonic() > until:
                raise _NotTakenError
            time.sleep(min(5.0, float(response.headers.get("Retry-After") or 0.1)))


def follow(
    sent: Sent, present: Callable[[list[bytes]], set[bytes]], done: threading.Event, patience_s: float = 60
) -> list[float]:
    """Lag of each sampled trace, s: from its request to the first query that finds it. Polls four times a second."""
    lags: list[float] = []
    pending: dict[bytes, float] = {}
    taken = 0
    deadline = None
    while True:
        fresh = list(sent.samples.items())[taken:]
        taken += len(fresh)
        pending.update(fresh)
        if pending:
            for found in present(list(pending)):
                lags.append(time.monotonic() - pending.pop(found))
        if done.is_set():
            deadline = deadline or time.monotonic() + patience_s
            if not pending and taken == len(sent.samples):
                return lags
            if time.monotonic() > deadline:
                raise BenchError(f"{len(pending)} acknowledged traces could not be queried {patience_s:.0f} s later")
        time.sleep(0.25)
