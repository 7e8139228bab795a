"""What the gateway and the lane agree on: which requests the gateway hands on, and how, and how the lane's workers send lines through the
gateway.

Both directions carry one secret, WEIR_LANE_TOKEN, which no client knows. Nothing that a client sends can stand for it: the gateway makes
the headers of a request to the lane itself, and takes `KEY_HEADER` from whoever sends the secret alone.
"""

from collections.abc import Mapping

from inference.contract.snapshot import key_digest

TENANT_HEADER = "x-weir-tenant"
"""To the lane: whose request it is."""
KEY_HEADER = "x-weir-key"
"""To the lane: the digest of the caller's API key, or `key_of_tokens`. From a worker: that of whoever made the batch. Its models, limits,
regions and expiry hold for each line, and a key or an issuer that is taken away runs nothing more.
"""
OWN_TIER_HEADER = "x-weir-own-tier"
"""From a worker: why this line is served as any other request of its tenant."""
WAITED_FOR, LATE = "waited-for", "late"
"""Somebody waits for it, or its batch is late. All but the first can wait: they are no clients' demand."""
END_HEADER = "x-weir-expected-end"
"""From the lane, with a batch or job that is open: when it will end, Unix seconds, or UNKNOWN_END. With one that is refused because it
would end too late: the earliest end.
"""
UNKNOWN_END = "unknown"
ROOM_HEADER = "x-weir-room"
"""To a worker, with the answer to a line: how many more lines its pool had room for, or, below zero, how many requests wait for room."""
TIER = "batch"
"""The tier of other lines, where there is one of this name; else they are served in their tenant's."""

JOBS = "/v1/jobs"
PREFIXES = ("/v1/files", "/v1/batches", JOBS)
RESPONSES = "/v1/responses"
"""POST is for the lane where the body says `background: true`, and whatever lies below always, but for INPUT_TOKENS."""
INPUT_TOKENS = f"{RESPONSES}/input_tokens"
"""Counts the tokens of a request, which a model server does."""
ENDPOINTS = frozenset(
    (
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/embeddings",
        "/v1/responses",
        "/v1/messages",
        "/v1/rerank",
        "/v1/score",
        "/classify",
    )
)
"""The URLs that a batch may be for: whatever is answered by a model, and takes JSON."""

FEED = "/events"
"""How the URLs of streams end that go on for as long as they are read."""
COME_AGAIN = b'event: end\ndata: {"reason":"again"}\n\n'
"""The last event of such a stream where a gateway leaves. It goes on at another."""

MIN_LANE_TOKEN_CHARS = 32

MAX_UPLOAD_BYTES = 512 << 20
"""Of a file, as OpenAI has it."""
MAX_FORM_BYTES = 1 << 20
"""Of what an upload has beside its file."""


def key_of_tokens(issuer: str, tenant: str, tier: str) -> str:
    """What stands for the tokens of an issuer for a tenant in a tier: they end long before a batch does. No key has this digest that a
    client could send, because workers alone may name it.
    """
    return key_digest(f"{issuer}\0{tenant}\0{tier}")


_BELOW = (*(f"{it}/" for it in PREFIXES), f"{RESPONSES}/")


def is_below_lane(path: str) -> bool:
    """Whether each request of this URL is for the lane."""
    return (path.startswith(_BELOW) and path != INPUT_TOKENS) or path in PREFIXES


def is_upload(method: str, path: str) -> bool:
    """Whether its body is handed on while it comes."""
    return method == "POST" and path == PREFIXES[0]


def authorization(token: str) -> Mapping[str, str]:
    return {"authorization": f"Bearer {token}"}


def room_of(headers: Mapping[str, str]) -> int | None:
    """What an answer's headers, by their lower-case names, say of room; None where they say nothing."""
    text = headers.get(ROOM_HEADER, "")
    return int(text) if text.removeprefix("-").isdigit() and text.isascii() else None
