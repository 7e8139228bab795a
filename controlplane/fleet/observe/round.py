"""Probes all components at once, each with its own deadline, so that one that hangs delays no other."""

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import aiohttp
from redis.exceptions import RedisError

from controlplane.core.formatting import shortened, system_words
from controlplane.fleet.observe.core.reading import NOT_UNDERSTOOD, Figures, Reading, down
from controlplane.fleet.observe.probes import Probe

TIMEOUT_S = 2.0
"""How long a component may take to answer before it counts as down."""


@dataclass(frozen=True, slots=True)
class Target:
    component: str  # unique, such as "gateway" or "chat-large-local/triton-0"
    kind: str
    probe: Probe


@dataclass(frozen=True, slots=True)
class Seen:
    component: str
    kind: str
    reading: Reading


async def look(targets: Sequence[Target], timeout_s: float) -> list[Seen]:
    """What each target answered within `timeout_s`; a target without an answer is down. No answer of a component raises."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=timeout_s)) as session:
        return list(await asyncio.gather(*(_look(target, session, timeout_s) for target in targets)))


async def _look(target: Target, session: aiohttp.ClientSession, timeout_s: float) -> Seen:
    began = time.perf_counter()
    try:
        async with asyncio.timeout(timeout_s):
            reading = await target.probe(session)
    except TimeoutError:
        reading = down(f"no answer within {timeout_s:g} s")
    except aiohttp.ClientConnectorError as error:
        reading = down(f"no connection to {error.host}:{error.port}: {system_words(error.os_error)}")
    except (aiohttp.ClientError, RedisError, OSError) as error:
        reading = down(_short(error))
    except Exception as error:  # noqa: BLE001  (whatever one answers hides no other)
        reading = Reading("degraded", error=f"{NOT_UNDERSTOOD}: {_short(error)}")
    answer_ms = (time.perf_counter() - began) * 1e3
    figures = reading.figures if reading.state == "down" else {**reading.figures, "answer_ms": answer_ms}
    known = replace(reading, figures=_finite(figures), counters=_finite(reading.counters))
    return Seen(target.component, target.kind, known)


def _finite(figures: Figures) -> Figures:
    """What is no number is not known, and no database keeps it."""
    return {name: value for name, value in figures.items() if math.isfinite(value)}


def _short(error: Exception) -> str:
    return shortened(str(error) or type(error).__name__, 300)
