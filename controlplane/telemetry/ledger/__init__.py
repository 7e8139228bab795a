"""The latency ledger: pure, from a trace's spans to a row per request that closes exactly (docs/ledger.md)."""

from controlplane.telemetry.ledger.close import close
from controlplane.telemetry.ledger.row import LedgerRow

__all__ = ["LedgerRow", "close"]
