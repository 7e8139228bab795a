"""Checks the values of requests. Raises ApiError that names the parameter, its value and the remedy.

Ranges are OpenAI's (openai-python, `src/openai/types/chat/completion_create_params.py`); of the others, vLLM's
(`vllm/sampling_params.py`).
"""

import ipaddress
import re
from operator import attrgetter
from typing import Any
from urllib.parse import urlsplit

import msgspec

from inference.core.openai import errors
from inference.core.openai.schema import ChatRequest, CompletionRequest, EmbeddingRequest, Message, Part, decode

MAX_CHOICES = 128
"""Of one request: `n` for each prompt."""
_MAX_STOPS = 32
MAX_INPUTS = 2048
"""Of one request for embeddings (openai-python, `src/openai/types/embedding_create_params.py`)."""
_MAX_URL_CHARS = 8_192  # characters, where it is no data
_MAX_SEED = (1 << 63) - 1
_MAX_BIAS = 4096

_chat = msgspec.json.Decoder(ChatRequest)
_completion = msgspec.json.Decoder(CompletionRequest)
_embedding = msgspec.json.Decoder(EmbeddingRequest)
_function_name = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_data_image = re.compile(r"data:image/[a-z0-9.+-]{1,40};base64,[A-Za-z0-9+/_=-]+")

# What no model here does: the values without effect, and the remedy for others.
_REFUSED: tuple[tuple[str, tuple[Any, ...], str], ...] = (
    ("functions", (None, []), "use `tools`"),
    ("function_call", (None, "none", "auto"), "use `tool_choice`"),
    ("modalities", (None, ["text"]), "models here answer in text only"),
    ("audio", (None,), "models here answer in text only"),
    ("web_search_options", (None,), "models here do not search"),
)
# What cannot change the answer of a model here, or is a wish that none of the servers acts on: with the values without effect.
_DROPPED: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("user", (None, "")),
    ("metadata", (None, {})),
    ("store", (None, False)),
    ("service_tier", (None, "auto", "default")),
    ("safety_identifier", (None, "")),
    ("prompt_cache_key", (None, "")),
    ("prompt_cache_retention", (None,)),
    ("prediction", (None,)),
    ("verbosity", (None, "medium")),
)
_droppable = attrgetter(*(name for name, _ in _DROPPED))
_NONE_DROPPED = (None,) * len(_DROPPED)
# Lowest and highest value.
_RANGES: tuple[tuple[str, float, float], ...] = (
    ("top_p", 0, 1),
    ("presence_penalty", -2, 2),
    ("frequency_penalty", -2, 2),
    ("n", 1, MAX_CHOICES),
    ("top_k", -1, 1 << 31),
    ("min_p", 0, 1),
    ("repetition_penalty", 0.01, 10),
    ("min_tokens", 0, 1 << 31),
)


_USUAL = {"model", "messages", "max_tokens", "max_completion_tokens", "temperature", "seed", "stream", "stream_options"}
_RARE_IN_CHATS = sorted({*ChatRequest.__struct_fields__} - _USUAL)
_rare_of_chats, _ABSENT_IN_CHATS = attrgetter(*_RARE_IN_CHATS), (None,) * len(_RARE_IN_CHATS)


MAX_MESSAGES = 2048
"""In one chat request: bounds the work of it."""


def decode_chat(body: bytes) -> tuple[ChatRequest, bool]:
    """The request, and whether it is `plain`."""
    request = decode(_chat, body)
    if not request.messages:
        raise errors.invalid("`messages` is empty: send at least one.", "messages")
    if len(request.messages) > MAX_MESSAGES:
        raise errors.invalid(
            f"{len(request.messages)} messages, at most {MAX_MESSAGES} are taken.", "messages", "array_above_max_length"
        )
    for index, message in enumerate(request.messages):
        if type(message.content) is not str or message.tool_calls or message.role == "tool":
            _check_message(f"messages[{index}]", message)
    return request, check_chat(request)


def check_chat(request: ChatRequest) -> bool:
    """Everything but the messages. Returns whether the request is `plain`. Raises ApiError."""
    if _plain(request):
        _check_usual(request)
        return True
    for name, values, remedy in _REFUSED:
        if getattr(request, name) not in values:
            raise errors.unsupported(name, remedy)
    _check_common(request)
    if request.top_logprobs is not None:
        _within("top_logprobs", request.top_logprobs, 0, 20)
        if request.top_logprobs and not request.logprobs:
            raise errors.invalid("`top_logprobs` needs `logprobs: true`.", "top_logprobs")
    if request.continue_final_message and request.add_generation_prompt is not False:
        remedy = "send `add_generation_prompt: false` too, because an answer is either continued or begun"
        raise errors.unsupported("continue_final_message", remedy)
    _check_tools(request)
    return False


def _plain(request: ChatRequest) -> bool:
    """Whether a chat has none but the usual parameters, as most do: then there is little to check."""
    return _rare_of_chats(request) == _ABSENT_IN_CHATS


def decode_completion(body: bytes) -> CompletionRequest:
    request = decode(_completion, body)
    if request.best_of not in (None, 1):
        raise errors.unsupported("best_of", "ask for `n` choices and choose among them")
    _check_common(request)
    if request.logprobs is not None:
        _within("logprobs", request.logprobs, 0, 20)
    choices = (request.n or 1) * len(prompts_of(request.prompt, "prompt"))
    if choices > MAX_CHOICES:
        message = f"`prompt` and `n` ask for {choices} choices, at most {MAX_CHOICES} are given: send fewer."
        raise errors.invalid(message, "prompt")
    return request


def decode_embedding(body: bytes) -> EmbeddingRequest:
    request = decode(_embedding, body)
    inputs = prompts_of(request.input, "input")
    if len(inputs) > MAX_INPUTS:
        raise errors.invalid(f"{len(inputs)} inputs, at most {MAX_INPUTS} are taken: send fewer.", "input")
    if not all(inputs):
        raise errors.invalid("`input` has an empty text: leave it out.", "input")
    if request.dimensions is not None:
        _within("dimensions", request.dimensions, 1, 1 << 20)
    return request


def dropped(request: msgspec.Struct) -> list[str]:
    """The parameters of a request that have no effect here, and are not passed on."""
    if isinstance(request, ChatRequest) and _droppable(request) == _NONE_DROPPED:
        return []
    return [name for name, neutral in _DROPPED if getattr(request, name, None) not in neutral]


def prompts_of(given: str | list[str | int | list[int]], param: str) -> tuple[str | tuple[int, ...], ...]:
    """The prompts: a text, token ids, or a list of either. Raises ApiError."""
    if isinstance(given, str):
        return (given,)
    if not given:
        raise errors.invalid(f"`{param}` is empty: send at least one.", param)
    if all(type(item) is int for item in given):
        return (_token_ids(given, param),)
    if any(type(item) is int for item in given):
        raise errors.invalid(f"`{param}` mixes token ids and texts: send one or the other.", param)
    return tuple(item if isinstance(item, str) else _token_ids(item, f"{param}[{n}]") for n, item in enumerate(given))


def _token_ids(given: Any, param: str) -> tuple[int, ...]:
    if not given or not all(0 <= number < 1 << 31 for number in given):
        raise errors.invalid(f"`{param}` must be token ids from 0 up, at least one.", param)
    return tuple(given)


def _check_usual(request: ChatRequest | CompletionRequest) -> None:
    if request.temperature is not None:
        _within("temperature", request.temperature, 0, 2)
    if request.seed is not None:
        _within("seed", request.seed, 0, _MAX_SEED)
    limit = request.output_limit
    if limit is not None and limit < 1:
        name = "max_tokens" if request.max_tokens == limit else "max_completion_tokens"
        raise errors.invalid(f"`{name}` is {limit}, it must be at least 1.", name)
    if request.stream_options is not None and not request.stream:
        raise errors.invalid("`stream_options` needs `stream: true`.", "stream_options")


def _check_common(request: ChatRequest | CompletionRequest) -> None:
    _check_usual(request)
    for name, low, high in _RANGES:
        value = getattr(request, name)
        if value is not None and not low <= value <= high:
            _within(name, value, low, high)
    if request.top_p == 0:
        raise errors.invalid(
            "`top_p` is 0, it must lie above 0: for the likeliest token use `temperature: 0`.", "top_p"
        )
    if request.stop:
        _check_stops(request.stop)
    if len(request.logit_bias or ()) > _MAX_BIAS:
        raise errors.invalid(f"`logit_bias` has more than {_MAX_BIAS:,} token ids.", "logit_bias")
    for key, value in (request.logit_bias or {}).items():
        if not (key.isdecimal() and key.isascii()):
            raise errors.invalid(f"`logit_bias` has the key {key[:40]!r}, keys are token ids.", "logit_bias")
        _within(f"logit_bias.{key}", value, -100, 100)
    if request.response_format is not None:
        _check_format(request.response_format)
    guides = [name for name in _GUIDES if getattr(request, name) is not None]
    if len(guides) > 1 or (guides and request.structured_outputs is not None):
        raise errors.invalid(f"`{guides[0]}` is not the only rule for the answer's form: send one.", guides[0])


_GUIDES = ("guided_json", "guided_regex", "guided_choice", "guided_grammar")


def _check_stops(given: str | list[str]) -> None:
    stops = [given] if isinstance(given, str) else given
    if len(stops) > _MAX_STOPS:
        raise errors.invalid(f"`stop` has {len(stops)} texts, at most {_MAX_STOPS} are taken.", "stop")
    if not all(stops):
        raise errors.invalid("`stop` has an empty text, which every answer has: leave it out.", "stop")


def _check_format(given: dict[str, Any]) -> None:
    kind = given.get("type")
    if kind not in ("text", "json_object", "json_schema"):
        message = f"`response_format.type` is {kind!r}: use text, json_object or json_schema."
        raise errors.invalid(message, "response_format.type")
    if kind != "json_schema":
        return
    schema = given.get("json_schema")
    if not isinstance(schema, dict) or not isinstance(schema.get("schema"), dict):
        message = "`response_format.json_schema` needs a `schema`, which is a JSON Schema."
        raise errors.invalid(message, "response_format.json_schema", "missing_required_parameter")
    if not isinstance(schema.get("name"), str):
        message = "`response_format.json_schema` needs a `name`."
        raise errors.invalid(message, "response_format.json_schema.name", "missing_required_parameter")


def _check_tools(request: ChatRequest) -> None:
    names = []
    for index, tool in enumerate(request.tools or ()):
        where = f"tools[{index}]"
        if tool.get("type") != "function":
            raise errors.unsupported(f"{where}.type", "only tools of type `function` are taken")
        function = _function(tool)
        name = function.get("name")
        if not isinstance(name, str) or not _function_name.fullmatch(name):
            message = f"`{where}.function.name` must be 1 to 64 letters, digits, `_`, `.` or `-`."
            raise errors.invalid(message, f"{where}.function.name")
        if not isinstance(function.get("parameters"), dict | None):
            raise errors.invalid(
                f"`{where}.function.parameters` must be a JSON Schema.", f"{where}.function.parameters"
            )
        names.append(name)
    choice = request.tool_choice
    if isinstance(choice, str):
        if choice not in ("none", "auto", "required"):
            raise errors.invalid(
                f"`tool_choice` is {choice[:40]!r}: use none, auto, required or a function.", "tool_choice"
            )
    elif choice is not None and (choice.get("type") != "function" or _function(choice).get("name") not in names):
        message = "`tool_choice` must be {type: function, function: {name}} with the name of one of `tools`."
        raise errors.invalid(message, "tool_choice")
    if choice not in (None, "none", "auto") and not names:
        raise errors.invalid("`tool_choice` wants a call, and there are no `tools`.", "tool_choice")


def _function(given: dict[str, Any]) -> dict[str, Any]:
    function = given.get("function")
    return function if isinstance(function, dict) else {}


def _check_message(where: str, message: Message) -> None:
    if message.audio is not None or message.function_call is not None:
        name = "audio" if message.audio is not None else "function_call"
        raise errors.unsupported(f"{where}.{name}", "leave it out" if name == "audio" else "use `tool_calls`")
    if message.tool_calls and message.role != "assistant":
        raise errors.invalid(f"`{where}.tool_calls` belongs to an assistant's message.", f"{where}.tool_calls")
    if message.role == "tool" and not message.tool_call_id:
        raise errors.invalid(
            f"`{where}` needs the `tool_call_id` of the call that it answers.", f"{where}.tool_call_id"
        )
    if message.content == [] or (message.content is None and not message.tool_calls and not message.refusal):
        raise errors.invalid(f"`{where}.content` needs a text.", f"{where}.content")
    if isinstance(message.content, list):
        for number, part in enumerate(message.content):
            _check_part(f"{where}.content[{number}]", part, message)


def _check_part(where: str, part: Part, message: Message) -> None:
    if part.type == "text" and part.text is not None:
        return
    if part.type == "refusal" and part.refusal is not None and message.role == "assistant":
        return
    if part.type != "image_url":
        raise errors.unsupported(where, "parts of type `text` and `image_url` are taken")
    if part.image_url is None:
        raise errors.invalid(f"`{where}.image_url` is missing.", f"{where}.image_url", "missing_required_parameter")
    if message.role != "user":
        raise errors.invalid(f"`{where}` is an image, which only messages of role `user` may have.", where)
    check_image(f"{where}.image_url.url", part.image_url.url)


def check_image(where: str, url: str) -> None:
    """Raises ApiError. The gateway fetches nothing. The model server may, so a URL must not lead into its own network."""
    if url.startswith("data:"):
        if not _data_image.fullmatch(url):
            raise errors.invalid(f"`{where}` must be data:image/…;base64,… with base64.", where)
        return
    if len(url) > _MAX_URL_CHARS:
        raise errors.invalid(f"`{where}` is longer than {_MAX_URL_CHARS} characters.", where)
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme != "https" or parts.username is not None or not _public(parts.hostname or ""):
        raise errors.invalid(f"`{where}` must be a `data:` URL, or an `https:` URL of a public host.", where)


def _public(host: str) -> bool:
    """Whether a host may be on the internet, by its name alone."""
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        labels = host.rstrip(".").split(".")
        # A name whose last label is a number is an address in another notation, such as 2130706433 or 0x7f.1.
        return len(labels) > 1 and not labels[-1][:1].isdigit() and labels[-1] not in ("localhost", "local", "internal")


def _within(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        upper = "2**63-1" if high == _MAX_SEED else f"{high:g}"
        raise errors.invalid(f"`{name}` is {value}, it must lie in {low:g} to {upper}.", name)
