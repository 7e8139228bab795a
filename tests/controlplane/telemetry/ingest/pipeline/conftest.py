"""The real store, for what several pipelines write into it."""

from tests.controlplane.telemetry.store.conftest import dsn, front_dsn, store

__all__ = ["dsn", "front_dsn", "store"]
