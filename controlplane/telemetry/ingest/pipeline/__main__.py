"""`python -m controlplane.telemetry.ingest.pipeline --shard 0 --shards 1`: only `controlplane.telemetry` starts it."""

import gc

gc.disable()  # it would walk again and again what stays, for a quarter of each start

import argparse
import logging

from controlplane.telemetry.ingest import native

native.use()  # before the compiled modules are imported

from controlplane.telemetry.config import IngestConfig
from controlplane.telemetry.ingest.pipeline.process import run
from controlplane.telemetry.ingest.pipeline.traces import Limits


def main() -> None:
    gc.freeze()
    gc.enable()
    parser = argparse.ArgumentParser(prog="python -m controlplane.telemetry.ingest.pipeline", description=__doc__)
    parser.add_argument("--shard", type=int, default=0)
    parser.add_argument("--shards", type=int, default=1)
    arguments = parser.parse_args()
    for library in ("urllib3", "clickhouse_connect"):
        logging.getLogger(library).setLevel(logging.CRITICAL)  # `sink` logs their errors once
    gc.set_threshold(50_000, 20, 100)  # there are hundreds of thousands of spans and few cycles: collect less often
    config = IngestConfig.load()
    run(
        config.home / "spool",
        config.store_dsn,
        config.snapshot_file,
        shard=arguments.shard,
        shards=arguments.shards,
        limits=Limits(quiet_s=config.trace_quiet_s, root_s=config.trace_root_s, open_s=config.trace_open_s),
        retention_days=config.retention_days,
        rollup_retention_days=config.rollup_retention_days,
    )


if __name__ == "__main__":
    main()
