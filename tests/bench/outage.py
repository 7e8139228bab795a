"""How long until somebody knows: from the moment no model answers to the page at a PagerDuty stand-in."""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.figures import Figure, say
from tests.bench.processes import ROOT, BenchError
from tests.controlplane.incidents.delivery.pagerduty import PagerDuty
from tests.deploy.outage import break_everything, key_of, running

PATIENCE_S = 300.0


def run() -> Iterator[Figure]:
    shared = Path(os.environ.get("WEIR_SHARED_DIR", ROOT.parent / "shared"))
    openapi = shared / "fixtures" / "pagerduty" / "events-v2.openapi.json"
    if not openapi.is_file():
        raise BenchError(f"{openapi} is absent: set WEIR_SHARED_DIR")
    say("starting everything, to break it")
    with tempfile.TemporaryDirectory(prefix="weir-outage-") as folder, PagerDuty(openapi) as stand_in:
        with running(Path(folder), stand_in) as weir:
            broken = break_everything(weir)
            if not stand_in.wait(lambda it: bool(key_of(it)), PATIENCE_S):
                raise BenchError(f"no page within {PATIENCE_S:.0f} s")
            taken_s = time.time() - broken
        if stand_in.violations:
            raise BenchError(f"the contract was violated: {stand_in.violations[0]}")
        yield Figure("page.outage_to_page_s", taken_s, "s", "99.9 % availability, 5 requests/s, default windows")
