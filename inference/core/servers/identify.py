"""Says which server answers, by its list of models: each writes its own name under `owned_by`.

Sources: vllm/entrypoints/openai/models/protocol.py ("vllm"), python/sglang/srt/entrypoints/openai/protocol.py ("sglang"),
tools/server/server-context.cpp of llama.cpp ("llamacpp"), tensorrt_llm/serve/openai_protocol.py ("tensorrt_llm"),
lib/llm/src/http/service/openai.rs of Dynamo ("nvidia", which others write too).
"""

from typing import Any, NamedTuple

import msgspec

from inference.contract.lenient import UNREADABLE

_BY_OWNER = {"vllm": "vllm", "sglang": "sglang", "llamacpp": "llamacpp", "tensorrt_llm": "trtllm"}
_DYNAMO_OWNER = "nvidia"


class _Card(msgspec.Struct):
    id: str = ""
    owned_by: str = ""
    max_model_len: int | None = None
    parent: str | None = None  # the model that a LoRA adapter of vLLM belongs to
    aliases: list[str] = []  # llama.cpp


class _Listing(msgspec.Struct):
    data: list[_Card]


class Listing(NamedTuple):
    """`kind` is a name of `DIALECTS`; `dynamo` only where it is likely, because another answer of the server has to confirm
    that.
    """

    kind: str
    models: tuple[str, ...]
    context_length: int  # tokens; 0 where the list does not have it


_decode_listing = msgspec.json.Decoder(_Listing).decode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def read_listing(body: bytes, model: str) -> Listing | None:
    """What the answer to GET /v1/models says; None where it is no list of models."""
    try:
        cards = _decode_listing(body).data
    except UNREADABLE:
        return None
    card = next((card for card in cards if card.id == model), cards[0] if cards else _Card())
    kind = _BY_OWNER.get(card.owned_by) or ("dynamo" if card.owned_by == _DYNAMO_OWNER else "other")
    names = tuple(name for card in cards for name in (card.id, *card.aliases) if name)
    # vLLM gives no length with its adapters (vllm/entrypoints/openai/models/serving.py).
    base = next((each for each in cards if each.id == card.parent), card)
    return Listing(kind, names, card.max_model_len or base.max_model_len or 0)


def read_object(body: bytes) -> dict[str, Any]:
    """A JSON object; an empty one where the body is none."""
    try:
        return _decode(body)
    except UNREADABLE:
        return {}


def read_card(body: bytes, model: str) -> dict[str, Any]:
    """What the answer to GET /v1/models says of the model; nothing where it is not there."""
    cards = read_object(body).get("data")
    those = cards if isinstance(cards, list) else ()
    return next((card for card in those if isinstance(card, dict) and card.get("id") == model), {})


def is_dynamo(health: dict[str, Any]) -> bool:
    """Whether this is the answer of Dynamo's /health (lib/llm/src/http/service/health.rs)."""
    return "endpoints" in health or "instances" in health


def llamacpp_context_length(props: dict[str, Any]) -> int:
    """The context of one slot, from /props; 0 where it is not there."""
    settings = props.get("default_generation_settings")
    tokens = settings.get("n_ctx") if isinstance(settings, dict) else None
    return tokens if isinstance(tokens, int) else 0


def misfit(url: str, model: str, models: tuple[str, ...]) -> str:
    """Why a server does not fit a pool, with the remedy; empty where it fits."""
    if model in models:
        return ""
    if not models:
        return f"{url} lists no model yet: wait until it has loaded, or look into its log"
    names = ", ".join(map(repr, models[:5])) + (", …" if len(models) > 5 else "")
    return f"{url} does not serve {model!r} but {names}: set the pool's model name to one of these"
