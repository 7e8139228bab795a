"""Sends spans of the control plane, and says seldom that nobody takes them: the library would at each try."""

import logging
import threading
from collections.abc import Sequence

import structlog
from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from controlplane.core.seldom import Seldom

log = structlog.get_logger(__name__)


class _Kept(logging.Filter):
    """Keeps what the library says last in each thread, instead of logging it."""

    def __init__(self) -> None:
        super().__init__()
        self.last = threading.local()

    def filter(self, record: logging.LogRecord) -> bool:
        self.last.text = record.getMessage()
        return False


_kept = _Kept()
logging.getLogger(trace_exporter.__name__).addFilter(_kept)


class NotTakenError(Exception):
    """Nobody has taken the spans. Never raised."""


class SpanExporter(trace_exporter.OTLPSpanExporter):
    """The library's, with fewer words."""

    _seldom: Seldom | None = None

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """As the library's."""
        result = super().export(spans)
        self._seldom = seldom = self._seldom or Seldom()
        if result is not SpanExportResult.SUCCESS:
            if seldom.fails(NotTakenError()):
                log.warning("spans.not_taken", url=self._endpoint, reason=getattr(_kept.last, "text", ""))
        elif seldom.works():
            log.info("spans.taken_again", url=self._endpoint)
        return result
