"""Sets up logging: structlog for our own events, the same renderer for those of libraries, and no secrets in either."""

import logging.config
import re
from collections.abc import MutableMapping
from typing import Any, Literal

import structlog
from structlog.typing import Processor

REDACTED = "[redacted]"
SECRET_FIELD = re.compile(
    r"(?:^|[_-])(password|secret|token|api[_-]?key|gateway[_-]?key|secret[_-]?key|authorization|cookie|prompt|messages)$",
    re.I,
)
SECRET_TEXT = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*://)[^/@\s]*@|(?P<bearer>\bbearer\s+)\S+|(?-i:\bweir_[a-z]+_)[\w-]{20,}", re.I
)


def redact_text(text: str) -> str:
    """The text without user and password of any URL, bearer credentials, or keys that we issue."""
    return SECRET_TEXT.sub(
        lambda match: f"{match['scheme'] or match['bearer'] or ''}{REDACTED}{'@' if match['scheme'] else ''}", text
    )


def redact(value: object) -> object:
    """The value without secrets: fields named for a secret lose their value at any depth, texts lose what looks like one."""
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, dict):
        return {
            key: REDACTED if isinstance(key, str) and SECRET_FIELD.search(key) else redact(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [redact(item) for item in value]
    return value


def _redact_event(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {
        key: item if key.startswith("_") else REDACTED if SECRET_FIELD.search(key) else redact(item)
        for key, item in event.items()
    }


SHARED: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
]


def is_news(record: logging.LogRecord) -> bool:
    """Whether it is not what libraries wrongly take for unexpected: each second that Redis is away, and each client that leaves."""
    if record.name == "channels_redis.pubsub" and record.exc_info and record.exc_info[0]:
        return record.exc_info[0].__name__ not in ("ConnectionError", "TimeoutError")
    return not (record.name == "asyncio" and "ASGIHandler.listen_for_disconnect" in record.getMessage())


def stdlib_logging(log_format: Literal["console", "json"], level: str) -> dict[str, Any]:
    """The `logging.config` dictionary: everything to stderr in one format."""
    render = (
        structlog.dev.ConsoleRenderer(colors=False) if log_format == "console" else structlog.processors.JSONRenderer()
    )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "structlog": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": SHARED,
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    structlog.processors.format_exc_info,  # before redaction: tracebacks quote URLs
                    _redact_event,
                    render,
                ],
            }
        },
        "filters": {"news": {"()": lambda: is_news}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "structlog", "filters": ["news"]}},
        "root": {"handlers": ["stderr"], "level": level.upper()},
        "loggers": {
            "django": {"handlers": [], "level": "INFO", "propagate": True},
            "django.server": {"handlers": [], "propagate": True},
            "celery.app.trace": {"level": "WARNING"},  # one line per task and round would hide the rest
            "celery.worker.strategy": {"level": "WARNING"},
            "celery.beat": {"level": "WARNING"},
            "celery.worker.consumer": {"level": "ERROR"},  # worker/broker.py logs when the broker is lost and back
            "django.request": {"level": "ERROR"},  # a 404 is the client's fault
            "axes": {"level": "WARNING"},
            "httpx2": {"level": "WARNING"},  # a line for every call
        },
    }


# The same list at each call: a logger keeps the one that it was first used with.
_PROCESSORS: list[Processor] = [
    structlog.stdlib.filter_by_level,
    *SHARED,
    structlog.stdlib.PositionalArgumentsFormatter(),
    structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
]


def configure(config: dict[str, Any]) -> None:
    """Django's LOGGING_CONFIG: the standard library's part, then structlog's. Safe to call again."""
    logging.config.dictConfig(config)
    structlog.configure(
        processors=_PROCESSORS,
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
