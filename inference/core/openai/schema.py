"""Decodes and checks OpenAI's request bodies. Raises ApiError that names the parameter."""

import re
from typing import Any, Literal, TypeVar

import msgspec

from inference.core.openai import errors

Role = Literal["system", "developer", "user", "assistant", "tool", "function"]


class Part(msgspec.Struct):
    type: str
    text: str | None = None


class Message(msgspec.Struct):
    role: Role
    content: str | list[Part] | None = None
    name: str | None = None
    tool_calls: list[Any] | None = None


class StreamOptions(msgspec.Struct):
    include_usage: bool = False


class _Common(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The fields of both endpoints. A field typed `Any` is refused unless its value has no effect."""

    model: str
    max_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    # These cannot change the answer, and are ignored.
    user: Any = None
    # These would change the answer, but the model's interface does not have them.
    n: Any = None
    top_p: Any = None
    frequency_penalty: Any = None
    presence_penalty: Any = None
    logit_bias: Any = None
    stop: Any = None
    logprobs: Any = None

    @property
    def streams(self) -> bool:
        return bool(self.stream)

    @property
    def include_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage

    @property
    def output_limit(self) -> int | None:
        return self.max_tokens


class ChatRequest(_Common, kw_only=True):
    messages: list[Message]
    max_completion_tokens: int | None = None
    metadata: Any = None
    store: Any = None
    service_tier: Any = None
    safety_identifier: Any = None
    prompt_cache_key: Any = None
    prompt_cache_retention: Any = None
    top_logprobs: Any = None
    tools: Any = None
    tool_choice: Any = None
    parallel_tool_calls: Any = None
    functions: Any = None
    function_call: Any = None
    response_format: Any = None
    modalities: Any = None
    audio: Any = None
    prediction: Any = None
    reasoning_effort: Any = None
    verbosity: Any = None
    web_search_options: Any = None

    @property
    def output_limit(self) -> int | None:
        return self.max_completion_tokens if self.max_completion_tokens is not None else self.max_tokens


class CompletionRequest(_Common, kw_only=True):
    prompt: str | list[Any]
    best_of: Any = None
    echo: Any = None
    suffix: Any = None


# Parameters that the model's interface does not have: the values without effect, and the remedy for others.
_NEUTRAL: tuple[tuple[str, tuple[Any, ...], str], ...] = (
    ("n", (None, 1), "send one request per choice"),
    ("top_p", (None, 1), "use `temperature`"),
    ("frequency_penalty", (None, 0), "leave it out"),
    ("presence_penalty", (None, 0), "leave it out"),
    ("logit_bias", (None, {}), "leave it out"),
    ("stop", (None, []), "cut the text where it arrives"),
    ("logprobs", (None, False, 0), "leave it out"),
)
_NEUTRAL_CHAT = (
    *_NEUTRAL,
    ("top_logprobs", (None, 0), "leave it out"),
    ("tools", (None, []), "models here answer in text only"),
    ("tool_choice", (None, "none", "auto"), "models here answer in text only"),
    ("functions", (None, []), "models here answer in text only"),
    ("function_call", (None, "none", "auto"), "models here answer in text only"),
    ("response_format", (None, {"type": "text"}), "models here answer in plain text only"),
    ("modalities", (None, ["text"]), "models here answer in text only"),
    ("audio", (None,), "models here answer in text only"),
    ("prediction", (None,), "leave it out"),
    ("reasoning_effort", (None, "none"), "leave it out"),
    ("verbosity", (None, "medium"), "leave it out"),
    ("web_search_options", (None,), "leave it out"),
)
_NEUTRAL_COMPLETION = (
    *_NEUTRAL,
    ("best_of", (None, 1), "leave it out"),
    ("echo", (None, False), "leave it out"),
    ("suffix", (None, ""), "leave it out"),
)

_Request = TypeVar("_Request")
_chat = msgspec.json.Decoder(ChatRequest)
_completion = msgspec.json.Decoder(CompletionRequest)
_path = re.compile(r" - at `\$\.?(?:key in )?([^`]*)`$")
_field = re.compile(r"field `([^`]*)`")
_MAX_SEED = (1 << 63) - 1


def decode_chat(body: bytes, max_messages: int) -> ChatRequest:
    request = _decode(_chat, body)
    if not request.messages:
        raise errors.invalid("`messages` is empty: send at least one.", "messages")
    if len(request.messages) > max_messages:
        raise errors.invalid(
            f"{len(request.messages)} messages, at most {max_messages} are taken.", "messages", "array_above_max_length"
        )
    _check(request, _NEUTRAL_CHAT)
    for index, message in enumerate(request.messages):
        _check_message(index, message)
    return request


def decode_completion(body: bytes) -> CompletionRequest:
    request = _decode(_completion, body)
    _check(request, _NEUTRAL_COMPLETION)
    if isinstance(request.prompt, list) and not (len(request.prompt) == 1 and isinstance(request.prompt[0], str)):
        raise errors.unsupported("prompt", "send one string per request")
    return request


def text_of(message: Message) -> str:
    """The text of a message that `decode_chat` has accepted."""
    if isinstance(message.content, str):
        return message.content
    return "".join(part.text or "" for part in message.content or ())


def _decode(decoder: msgspec.json.Decoder[_Request], body: bytes) -> _Request:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _explain(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise errors.invalid(f"The body is not JSON: {error}.", code="invalid_json") from None


def _explain(message: str) -> errors.ApiError:
    """An error with msgspec's message, and the parameter that it names."""
    field, path = _field.search(message), _path.search(message)
    where = path.group(1) if path else ""
    text = _path.sub("", message)
    if "unknown field" in message and field:
        name = f"{where}.{field.group(1)}".lstrip(".")
        return errors.PermanentApiError(
            400, "invalid_request_error", "unknown_parameter", f"Unknown parameter: '{name}'.", name
        )
    if "missing required field" in message and field:
        name = f"{where}.{field.group(1)}".lstrip(".")
        return errors.invalid(f"Missing required parameter: '{name}'.", name, "missing_required_parameter")
    return errors.invalid(
        f"Invalid value for '{where}': {text}." if where else f"{text}.", where or None, "invalid_type"
    )


def _check(request: _Common, neutral: tuple[tuple[str, tuple[Any, ...], str], ...]) -> None:
    for name, values, remedy in neutral:
        value = getattr(request, name)
        if value is not None and value not in values:
            raise errors.unsupported(name, remedy)
    if request.temperature is not None and not 0 <= request.temperature <= 2:
        raise errors.invalid(f"`temperature` is {request.temperature}, it must lie in 0 to 2.", "temperature")
    if request.seed is not None and not 0 <= request.seed <= _MAX_SEED:
        raise errors.invalid(f"`seed` is {request.seed}, it must lie in 0 to 2**63-1.", "seed")
    limit = request.output_limit
    if limit is not None and limit < 1:
        name = "max_tokens" if request.max_tokens == limit else "max_completion_tokens"
        raise errors.invalid(f"`{name}` is {limit}, it must be at least 1.", name)


def _check_message(index: int, message: Message) -> None:
    if message.tool_calls:
        raise errors.unsupported(f"messages[{index}].tool_calls", "models here answer in text only")
    if message.content is None:
        raise errors.invalid("A message needs text.", f"messages[{index}].content")
    if isinstance(message.content, list):
        for number, part in enumerate(message.content):
            if part.type != "text" or part.text is None:
                raise errors.unsupported(f"messages[{index}].content[{number}]", "only parts of type `text` are taken")
