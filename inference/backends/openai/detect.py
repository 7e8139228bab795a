"""Finds out which server answers at a URL, from routes that cost it nothing."""

from types import MappingProxyType
from typing import NamedTuple, Protocol

from inference.backends.port import Detected
from inference.contract.stages import OPERATIONS, Operation
from inference.core.backend_errors import FailedError
from inference.core.capabilities import Listed
from inference.core.passing.routes import ROUTES
from inference.core.question import GENERATION
from inference.core.servers import identify, openapi, refusals

_EMBEDDINGS: frozenset[Operation] = frozenset(("embeddings",))
_URLS = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/embeddings", *ROUTES)


class Get(Protocol):
    """Reads a path of the server: below its root, or below the base of its API."""

    async def __call__(self, path: str, *, of_api: bool = False) -> tuple[int, bytes]: ...


class Detection(NamedTuple):
    """`takes_priority` and `lower_first` are what SGLang says of how it orders requests, `operations` what it says its model is
    for: it does not stop a chat from reaching a model that embeds (python/sglang/srt/managers/tokenizer_manager.py).
    """

    detected: Detected
    takes_priority: bool = False
    lower_first: bool = False
    operations: frozenset[Operation] = OPERATIONS
    listed: Listed = MappingProxyType({})


async def detect(get: Get, url: str, model: str, *, parameters: bool = False) -> Detection:
    """What the server at `url` is, for a pool that wants `model` of it, and which `parameters` it lists. Raises BackendError."""
    status, body = await get("/models", of_api=True)
    listing = identify.read_listing(body, model) if status == 200 else None
    if listing is None:
        refusal = refusals.read(status, body)
        said = f"{refusal.what}: {refusal.said}" if status != 200 else "the answer is no list of models"
        raise FailedError(
            f"{url}/models: {said}. Check the URL, which ends in /v1, and the credential; "
            "an API without this list is the server “unlisted”",
            str(status),
        )
    kind, version, context_length = listing.kind, "", listing.context_length
    takes_priority = lower_first = False
    operations = OPERATIONS
    if kind in ("vllm", "trtllm"):
        version = str((await _object(get, "/version")).get("version", ""))
    elif kind == "sglang":
        info = await _object(get, "/get_server_info")
        version = str(info.get("version", ""))
        takes_priority = info.get("enable_priority_scheduling") is True
        lower_first = info.get("schedule_low_priority_values_first") is True
        facts = await _object(get, "/model_info") or await _object(get, "/get_model_info")  # as it was called before
        generates = facts.get("is_generation")
        if isinstance(generates, bool):
            operations = OPERATIONS - (_EMBEDDINGS if generates else GENERATION)
    elif kind == "llamacpp":
        props = await _object(get, "/props")
        version = str(props.get("build_info", ""))
        context_length = context_length or identify.llamacpp_context_length(props)
    elif kind == "dynamo" and not identify.is_dynamo(await _object(get, "/health")):
        kind = "other"
    misfit, card = identify.misfit(url, model, listing.models), identify.read_card(body, model)
    detected = Detected(kind, version[:100], listing.models, context_length, "", misfit, card)
    listed = openapi.read_parameters(await _object(get, openapi.PATH), _URLS) if parameters else {}
    return Detection(detected, takes_priority, lower_first, operations, listed)


async def _object(get: Get, path: str) -> dict[str, object]:
    """The JSON object there; an empty one where there is none, because detection goes on without it."""
    status, body = await get(path)
    return identify.read_object(body) if status == 200 else {}
