"""`python -m deploy.local.traffic`: sends generated requests through the gateway until a signal ends it.

Arrivals are random (Poisson), with a "day" of ten minutes in which the rate swings about its mean.

`python -m deploy.local.traffic --burst 3 --seconds 120` sends three times the mean beside them for two minutes, and says what became of
them: the way to watch policies act (docs/run.md). It reads the variables of `make run`.
"""

import argparse
import asyncio
import contextlib
import random
import signal
import time

from deploy.local import options
from deploy.local.ports import LOOPBACK
from deploy.local.traffic.burst import burst
from deploy.local.traffic.client import Settings, connected
from deploy.local.traffic.questions import TENANTS, questions, rate_at

DAY_S = 600.0
"""Length of the imitated day: short, so that a newcomer sees it."""
MAX_IN_FLIGHT = 32
"""Further requests are skipped."""


async def run(settings: Settings) -> None:
    """Send requests until cancelled."""
    chance = random.Random()  # noqa: S311  (no secret)
    endless = questions(chance, {name: TENANTS[name] for name in settings.keys})
    in_flight: set[asyncio.Task[object]] = set()
    begun = time.monotonic()
    async with connected(settings) as client:
        while True:
            rate = rate_at(time.monotonic() - begun, settings.traffic_rps, DAY_S)
            await asyncio.sleep(chance.expovariate(rate))
            question = next(endless)
            if len(in_flight) < MAX_IN_FLIGHT:
                task = asyncio.create_task(client.send(question))
                in_flight.add(task)
                task.add_done_callback(in_flight.discard)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m deploy.local.traffic", description="Sends generated requests.")
    parser.add_argument("--burst", type=float, metavar="TIMES", help="so many times the usual rate, beside it")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long the burst lasts, 120 by default")
    parser.add_argument("--model", choices=("chat-large", "chat-small"), help="of the burst: this model alone")
    given = parser.parse_args()
    if given.burst is None:
        asyncio.run(_until_signal(Settings()))
        return
    for name in ("burst", "seconds"):
        if not 0 < getattr(given, name) <= 3_600:
            parser.error(f"--{name} {getattr(given, name):g} is refused: give a number above 0, up to 3600")
    local = options.read()
    settings = Settings(
        home=local.home, gateway_url=local.gateway_url, otlp_endpoint=f"http://{LOOPBACK}:{local.otlp_http_port}"
    )
    if not settings.keys:
        parser.error(
            f"{local.home} has no gateway keys: start Weir with `make run` first, or set WEIR_HOME to its home"
        )
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(burst(settings, given.burst * settings.traffic_rps, given.seconds, given.model))


async def _until_signal(settings: Settings) -> None:
    task = asyncio.ensure_future(run(settings))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


if __name__ == "__main__":
    main()
