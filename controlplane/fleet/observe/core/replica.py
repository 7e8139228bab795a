"""One replica's reading: what its server says, and what the gateway says of it."""

from dataclasses import replace

from controlplane.fleet.observe.core.gateway_report import ReplicaReport
from controlplane.fleet.observe.core.prometheus_text import known
from controlplane.fleet.observe.core.reading import Reading, down
from inference.contract.server_metrics import read_kv_tokens, read_load

UNKNOWN = Reading(
    "degraded", error="the gateway says nothing of it: is the gateway up, and has it read the newest snapshot?"
)
"""Of a replica that the control plane cannot probe itself."""


def of_metrics(page: bytes) -> Reading:
    """A model server that answers with its Prometheus page is up."""
    signals = read_load(page, 0.0)
    tokens = read_kv_tokens(page)
    figures = known(waiting=signals.waiting, running=signals.running, kv_use_ratio=signals.kv_use, kv_tokens=tokens)
    return Reading("up", figures=figures)


def with_report(reading: Reading | None, report: ReplicaReport | None) -> Reading:
    """The server's own reading (None where it was not probed), with what the gateway found. A server that the gateway cannot use, or
    does not reach, is down whatever it says itself: it gets no request. Only the gateway knows whether a server with OpenAI's API has
    the model, and takes its credential.
    """
    if report is None or report.state == "unknown":
        return reading or UNKNOWN
    about = report.about
    if report.misfit:
        return replace(down(report.misfit), about=about)
    if reading is None:
        reading = Reading("up") if report.state == "up" else down(report.reason or "the gateway does not reach it")
    elif reading.state != "down" and report.state == "down":
        why = f" ({report.reason})" if report.reason else ""
        beside = f"; {reading.error}" if reading.error else ""
        reading = replace(reading, state="down", error=f"the gateway does not reach it{why}, the worker does{beside}")
    return replace(reading, about=about)
