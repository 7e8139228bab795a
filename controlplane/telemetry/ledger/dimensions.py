"""Reads a row's columns beside its stages: model, tokens, operation and outcome.

Values come from the request's entry span first, then from the entries nested in it, then from the client's span. All three generations
of the GenAI conventions are read.
"""

from typing import NamedTuple

from controlplane.telemetry.core.spans import Span
from controlplane.telemetry.ledger.adapters import http
from controlplane.telemetry.ledger.attributes import Attributes, count, flag, number, text
from controlplane.telemetry.ledger.reading import Entry, Node, by_time
from controlplane.telemetry.ledger.requests import ERROR, Request

STATUSES = frozenset({"ok", "error", "cancelled", "rejected"})

MODEL = ("weir.model", "gen_ai.request.model", "gen_ai.response.model", "triton.model_name")
_PROMPT_TOKENS = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
_OUTPUT_TOKENS = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
_CACHED_TOKENS = ("gen_ai.usage.cache_read.input_tokens",)
_ADDRESS = (("server.address", "server.port"), ("net.peer.name", "net.peer.port"), ("net.host.name", "net.host.port"))
_HOST = ("k8s.pod.name", "service.instance.id", "k8s.pod.ip", "host.ip", "server.address", "host.name")
_MAX_AROUND = 16  # spans
_HTTP_STATUS = ("http.response.status_code", "http.status_code")
_MIN_STATUS, _MAX_STATUS, _DIGITS = 100, 999, 3
_LEFT = frozenset({"DC", "DR"})
"""Of Envoy's `response_flags`: its client closed the connection, or reset the stream."""
_GRPC_STATUS = ("rpc.response.status_code", "rpc.grpc.status_code", "grpc.status_code")
_HTTP_OF_GRPC = {
    **dict.fromkeys(("1", "CANCELLED"), 499),
    **dict.fromkeys(("3", "INVALID_ARGUMENT", "11", "OUT_OF_RANGE"), 400),
    **dict.fromkeys(("5", "NOT_FOUND"), 404),
    **dict.fromkeys(("7", "PERMISSION_DENIED"), 403),
    **dict.fromkeys(("8", "RESOURCE_EXHAUSTED"), 429),
    **dict.fromkeys(("16", "UNAUTHENTICATED"), 401),
}
"""Of what a client did, or a server refused (google/rpc/code.proto). All else is an error by the span's own status."""


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
    others.sort(key=by_time)
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


def server(request: Request) -> Node:
    """The engine's span where there is one, else the entry: its resource says where the model ran."""
    for node in request.members:
        if node.reading.entry is Entry.ENGINE and not node.reading.inner:
            return node
    return request.entry


def model(sources: list[Attributes], request: Request, server: Node) -> str:
    """By the request's spans, else by the server's resource, else by the nearest span around the request that names one."""
    named = first_text(sources, *MODEL) or text(server.span.resource, *MODEL)
    if named or request.entry.reading.entry is Entry.GATEWAY:
        return named
    around = request.entry.parent
    for _ in range(_MAX_AROUND):
        if around is None:
            break
        if named := text(around.span.attributes, *MODEL):
            return named
        around = around.parent
    return ""


def origin(client: Span | None, server: Span) -> tuple[str, ...]:
    """Where the request was served, by what its spans say, the most certain first: the address that the caller used, the server's own
    address, its pod and host, its service's name. The fleet may know a replica or a pool by one of them.
    """
    spans = [server] if client is None else [client, server]
    addresses = [at for span in spans for at in _addresses(span.attributes)]
    resource = server.resource
    values = [*addresses, *_addresses(resource), *(text(resource, key) for key in _HOST), server.service]
    return tuple(dict.fromkeys([value for value in values if value]))


def _addresses(attributes: Attributes) -> list[str]:
    """`host:port` of a server, by the stable and the older conventions."""
    made = []
    for host_key, port_key in _ADDRESS:
        host, port = text(attributes, host_key), attributes.get(port_key)
        if host and (type(port) is int or type(port) is str):
            made.append(f"{host}:{port}")
    for key in ("url.full", "http.url"):
        netloc = text(attributes, key).partition("://")[2].partition("/")[0].rpartition("@")[2]
        if ":" in netloc:
            made.append(netloc)
    return made


def prompt_tokens(sources: list[Attributes]) -> int | None:
    return first_count(sources, *_PROMPT_TOKENS)


def cached_tokens(sources: list[Attributes]) -> int | None:
    return first_count(sources, *_CACHED_TOKENS)


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
    """How the request ended: by the root span of Weir's gateway, else by status of HTTP or gRPC and of the span, of the entry, then of the
    client.

    429 is `rejected`, 499 is `cancelled`, any other status from 400 up is `error`. `error.type` on a span that did not fail is `cancelled`:
    the client left. So it is where Envoy says that its client did.
    """
    entry = request.entry.span
    spans = [entry] if request.client is None else [entry, request.client.span]
    said: list[Attributes] = [span.attributes for span in spans]
    http_status = _status(said)
    error_type = first_text(said, "error.type")
    status = text(entry.attributes, "weir.status")
    if status in STATUSES:
        return Outcome(status, http_status, error_type)
    if http_status == 429:
        status = "rejected"
    elif http_status == 499:
        status = "cancelled"
    elif (http_status is not None and http_status >= 400) or any(span.status_code == ERROR for span in spans):
        status = "error"
    else:
        left = not _LEFT.isdisjoint(first_text(said, "response_flags").split(","))
        status = "cancelled" if error_type or left else "ok"
    return Outcome(status, http_status, error_type)


def _status(sources: list[Attributes]) -> int | None:
    """The status of HTTP, or the one that is like that of gRPC. Envoy has both as text."""
    for attributes in sources:
        for key in _GRPC_STATUS:
            if key in attributes and (status := _HTTP_OF_GRPC.get(str(attributes[key]))) is not None:
                return status
        for key in _HTTP_STATUS:
            digits = text(attributes, key)
            status = int(digits) if digits.isdecimal() and len(digits) == _DIGITS else count(attributes, key)
            if status is not None and _MIN_STATUS <= status <= _MAX_STATUS:
                return status
    return None
