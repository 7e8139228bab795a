"""`python -m tests.bench [--only PART]`: one JSON object per figure and line on stdout, progress on stderr."""

import argparse
import os
import sys
from importlib import import_module

from controlplane.telemetry.ingest import native
from tests.bench.figures import emit, say
from tests.bench.processes import BenchError

PARTS = (
    "e2e", "gateway", "edge", "cancel", "ingest", "query", "demand", "slo", "outage", "hostile", "auth", "auth.guarded", "authorised",
    "forecast", "lane", "limits", "pages", "plan", "policy", "replay", "routing", "semantic", "cluster", "cluster.resources", "local",
    "loop", "transparent", "unknown", "weirbench",
)  # fmt: skip
"""Modules beside this one, each with a `run` that yields its figures; imported when their turn comes."""


def conditions() -> str:
    """What figures depend on besides the product: the machine, and whether spans are closed by compiled code."""
    built = "yes" if native.folder().is_dir() else "no, so telemetry takes longer for a span (`make setup` compiles it)"
    return f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; ledger compiled: {built}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--only", choices=PARTS, help="one part; all of them without it")
    only = parser.parse_args().only
    say(conditions())
    failed = False
    for name in PARTS:
        if only in (None, name):
            try:
                for figure in import_module(f"tests.bench.{name}").run():
                    emit(figure)
            except BenchError as error:
                say(f"{name} failed, what it had not yet measured is left out: {error}")
                failed = True
    sys.exit(failed)


if __name__ == "__main__":
    main()
