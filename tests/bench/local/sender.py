"""Sends a burst to a running system, as `python -m deploy.local.traffic --burst` does, and returns what became of each request."""

import asyncio

from deploy.local.ports import LOOPBACK
from deploy.local.traffic.burst import burst
from deploy.local.traffic.client import Outcome, Settings
from tests.bench.figures import say
from tests.support.deploy.run import Run


def send(run: Run, times: float, duration_s: float) -> list[Outcome]:
    settings = Settings(
        home=run.home,
        gateway_url=f"http://{LOOPBACK}:{run.gateway}",
        otlp_endpoint=f"http://{LOOPBACK}:{run.env['WEIR_OTLP_HTTP_PORT']}",
    )
    return asyncio.run(
        burst(settings, times * settings.traffic_rps, duration_s, say=lambda text: say(f"local: {text}"))
    )
