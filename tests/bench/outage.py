"""How long until somebody knows: from a fault to the page at a PagerDuty stand-in, and from its end to the page's.

First no replica can be reached, which an objective finds; then gateway, telemetry and every model are killed or stopped (SIGSTOP), which
observing finds. Each page must name what is down and say since when, ± 10 s.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.figures import Figure, say
from tests.bench.processes import ROOT, BenchError
from tests.support.deploy.outage import (
    FAULTS,
    Fault,
    break_everything,
    broken,
    key_of,
    mend_everything,
    page_of,
    resolve,
    running,
    since_of,
)
from tests.support.deploy.run import Run
from tests.support.incidents.pagerduty import CONTRACT, PagerDuty

PATIENCE_S = 300.0
STEADY_S = 30.0
"""Between two faults: what was mended is seen up."""
SINCE_WITHIN_S = 10.0


def run() -> Iterator[Figure]:
    shared = Path(os.environ.get("WEIR_SHARED_DIR", ROOT.parent / "shared"))
    openapi = shared / CONTRACT
    if not openapi.is_file():
        raise BenchError(f"{openapi} is absent: set WEIR_SHARED_DIR")
    say("starting everything, to break it")
    with tempfile.TemporaryDirectory(prefix="weir-outage-") as folder, PagerDuty(openapi) as stand_in:
        with running(Path(folder), stand_in) as weir:
            at = break_everything(weir)
            if not stand_in.wait(lambda it: bool(key_of(it)), PATIENCE_S):
                raise BenchError(f"no page within {PATIENCE_S:.0f} s")
            yield Figure("page.outage_to_page_s", time.time() - at, "s", "99.9 % availability, 5 requests/s")
            mend_everything(weir)
            resolve(weir, key_of(stand_in))
            for name, fault in FAULTS.items():
                time.sleep(STEADY_S)
                yield from measure(weir, stand_in, name, fault)
        if stand_in.violations:
            raise BenchError(f"the contract was violated: {stand_in.violations[0]}")


def measure(weir: Run, stand_in: PagerDuty, name: str, fault: Fault) -> Iterator[Figure]:
    say(f"{name.replace('_', ' ')}: {fault.command}")
    with broken(weir, fault) as at:
        if not stand_in.wait(lambda it: page_of(it, fault.components, at) is not None, PATIENCE_S):
            raise BenchError(f"{name}: no page within {PATIENCE_S:.0f} s")
        yield Figure(f"page.{name}_s", time.time() - at, "s", "from the fault to the page")
        found = page_of(stand_in, fault.components, at)
        assert found is not None
        key, payload = found
        if fault.says not in payload["summary"]:
            raise BenchError(f"{name}: the page does not say {fault.says!r}: {payload['summary']}")
        off_s = since_of(payload["summary"], at) - at
        if abs(off_s) > SINCE_WITHIN_S:
            raise BenchError(f"{name}: the page's since is {off_s:.0f} s off: {payload['summary']}")
    mended = time.time()
    if not stand_in.wait(lambda it: it.alert(key).state == "resolved", PATIENCE_S):
        raise BenchError(f"{name}: the page was not resolved within {PATIENCE_S:.0f} s after its end")
    yield Figure(
        f"page.{name}_resolved_s", time.time() - mended, "s", "from its end; a restart and 60 s up are part of it"
    )
