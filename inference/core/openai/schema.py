"""Decodes OpenAI's request bodies. Raises ApiError that names the parameter.

`inference.core.openai.checks` looks at the values, and `inference.core.normalise` makes a question of them.
"""

import re
from typing import Any, Literal, TypeVar

import msgspec

from inference.contract.lenient import UNREADABLE
from inference.core.openai import errors
from inference.core.question import Role


class Strict(msgspec.Struct, forbid_unknown_fields=True):
    """A part of a request that has no other fields than its own."""


class ImageUrl(Strict):
    url: str
    detail: Literal["auto", "low", "high", "original"] | None = None


class Part(Strict):
    """`cache_control` is a hint that some clients send for other services. It cannot change the answer."""

    type: str
    text: str | None = None
    image_url: ImageUrl | None = None
    refusal: str | None = None
    cache_control: Any = None
    # Parts of these types are refused by their place.
    input_audio: Any = None
    file: Any = None
    video_url: Any = None
    audio_url: Any = None


class Function(Strict):
    name: str
    arguments: str


class ToolCall(Strict):
    id: str
    function: Function
    type: Literal["function"] = "function"
    index: int | None = None  # clients that join a stream's parts send it back


class Message(Strict):
    role: Role
    content: str | list[Part] | None = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    # What clients send back of an answer, and what cannot change the next.
    refusal: str | None = None
    annotations: Any = None
    audio: Any = None
    function_call: Any = None


class StreamOptions(Strict):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None  # vLLM's: the counts so far in every chunk
    include_obfuscation: bool | None = None


class _Common(Strict, kw_only=True):
    """The fields of all endpoints that generate. Fields typed `Any` are looked at in `checks`."""

    model: str
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    n: int | None = None
    stop: str | list[str] | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: Any = None
    # Beyond OpenAI's: what several servers take (docs/gateway.md).
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    min_tokens: int | None = None
    stop_token_ids: list[int] | None = None
    bad_words: list[str] | None = None
    ignore_eos: bool | None = None
    skip_special_tokens: bool | None = None
    include_stop_str_in_output: bool | None = None
    structured_outputs: dict[str, Any] | None = None
    guided_json: Any = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None
    response_format: dict[str, Any] | None = None

    @property
    def streams(self) -> bool:
        return bool(self.stream)

    @property
    def include_usage(self) -> bool:
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    @property
    def continuous_usage(self) -> bool:
        return self.include_usage and bool(self.stream_options and self.stream_options.continuous_usage_stats)

    @property
    def output_limit(self) -> int | None:
        return self.max_tokens


class ChatRequest(_Common, kw_only=True):
    messages: list[Message]
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: str | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    metadata: Any = None
    store: Any = None
    service_tier: Any = None
    safety_identifier: Any = None
    prompt_cache_key: Any = None
    prompt_cache_retention: Any = None
    prediction: Any = None
    verbosity: Any = None
    functions: Any = None
    function_call: Any = None
    modalities: Any = None
    audio: Any = None
    web_search_options: Any = None

    @property
    def output_limit(self) -> int | None:
        return self.max_completion_tokens if self.max_completion_tokens is not None else self.max_tokens


class CompletionRequest(_Common, kw_only=True):
    prompt: str | list[str | int | list[int]]
    logprobs: int | None = None
    echo: bool | None = None
    suffix: str | None = None
    best_of: Any = None


class EmbeddingRequest(Strict, kw_only=True):
    model: str
    input: str | list[str | int | list[int]]
    dimensions: int | None = None
    encoding_format: Literal["float", "base64"] | None = None
    user: Any = None


_Request = TypeVar("_Request")
_path = re.compile(r" - at `\$\.?(?:key in )?([^`]*)`$")
_field = re.compile(r"field `([^`]*)`")


def decode(decoder: msgspec.json.Decoder[_Request], body: bytes) -> _Request:
    """The body as the decoder's type. Raises ApiError."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _explain(str(error)) from None
    except UNREADABLE as error:
        raise errors.invalid(f"The body is not JSON: {error}.", code="invalid_json") from None


def _explain(message: str) -> errors.ApiError:
    """An error with msgspec's message, and the parameter that it names."""
    field, path = _field.search(message), _path.search(message)
    where = path.group(1) if path else ""
    text = _path.sub("", message)
    if "unknown field" in message and field:
        name = f"{where}.{field.group(1)}".lstrip(".")
        return errors.unknown_parameter(name)
    if "missing required field" in message and field:
        name = f"{where}.{field.group(1)}".lstrip(".")
        return errors.invalid(f"Missing required parameter: '{name}'.", name, "missing_required_parameter")
    return errors.invalid(
        f"Invalid value for '{where}': {text}." if where else f"{text}.", where or None, "invalid_type"
    )
