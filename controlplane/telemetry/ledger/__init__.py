"""The latency ledger: makes a row per request of a trace's spans, whose stages add up exactly (docs/ledger.md)."""

from controlplane.telemetry.ledger.close import close
from controlplane.telemetry.ledger.row import LedgerRow

__all__ = ["LedgerRow", "close"]
