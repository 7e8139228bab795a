"""Reads a row's columns beside its stages: model, tokens, operation and outcome.

Values come from the request's entry span first, then from the entries nested in it, then from the client's span. All three generations
of the GenAI conventions are read.
"""

from typing import NamedTuple

from controlplane.telemetry.ledger.adapters import http
from controlplane.telemetry.ledger.attributes import Attributes, count, flag, number, text
from controlplane.telemetry.ledger.reading import Entry
from controlplane.telemetry.ledger.requests import ERROR, Request

STATUSES = frozenset({"ok", "error", "cancelled", "rejected"})
MAX_COST_USD = 1e9

_MODEL = ("weir.model", "gen_ai.request.model", "gen_ai.response.model", "triton.model_name")
_PROMPT_TOKENS = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
_OUTPUT_TOKENS = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
_HTTP_STATUS = ("http.response.status_code", "http.status_code")


class Outcome(NamedTuple):
    status: str
    http_status: int | None
    error_type: str


def sources(request: Request) -> list[Attributes]:
    """The attributes to read, in order. The root span of Weir's gateway has everything itself."""
    entry = request.entry
    if entry.reading.entry is Entry.GATEWAY:
        return [entry.span.attributes]
    others = [node for node in request.members if node.reading.entry and node not in (entry, request.client)]
    others.sort(key=lambda node: (node.start, node.id))
    if request.client is not None:
        others.append(request.client)
    return [entry.span.attributes, *(node.span.attributes for node in others)]


def first_text(sources: list[Attributes], *keys: str) -> str:
    for attributes in sources:
        value = text(attributes, *keys)
        if value:
            return value
    return ""


def first_count(sources: list[Attributes], *keys: str) -> int | None:
    for attributes in sources:
        value = count(attributes, *keys)
        if value is not None:
            return value
    return None


def model(sources: list[Attributes]) -> str:
    return first_text(sources, *_MODEL)


def prompt_tokens(sources: list[Attributes]) -> int | None:
    return first_count(sources, *_PROMPT_TOKENS)


def output_tokens(sources: list[Attributes]) -> int | None:
    return first_count(sources, *_OUTPUT_TOKENS)


def operation(sources: list[Attributes]) -> str:
    named = first_text(sources, "gen_ai.operation.name")
    return named or next((name for attributes in sources if (name := http.operation(attributes))), "")


def stream(sources: list[Attributes]) -> bool:
    return any(flag(attributes, "gen_ai.request.stream") for attributes in sources)


def cost_usd(attributes: Attributes) -> float | None:
    return number(attributes, "weir.cost_usd")


def outcome(request: Request) -> Outcome:
    """How the request ended: by the root span of Weir's gateway, else by HTTP status and span status of the entry, then of the client.

    429 is `rejected`, 499 is `cancelled`, any other status from 400 up is `error`.
    """
    entry = request.entry.span
    spans = [entry] if request.client is None else [entry, request.client.span]
    http_status = first_count([span.attributes for span in spans], *_HTTP_STATUS)
    if http_status is not None and http_status > 999:
        http_status = None
    error_type = first_text([span.attributes for span in spans], "error.type")
    status = text(entry.attributes, "weir.status")
    if status in STATUSES:
        return Outcome(status, http_status, error_type)
    if http_status == 429:
        status = "rejected"
    elif http_status == 499:
        status = "cancelled"
    elif (http_status or 0) >= 400 or any(span.status_code == ERROR for span in spans):
        status = "error"
    else:
        status = "ok"
    return Outcome(status, http_status, error_type)
