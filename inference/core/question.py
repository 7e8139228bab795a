"""The question that a model gets: everything that decides its answer, besides the model itself, and nothing else.

The fields have the names of OpenAI's parameters, and left-out ones are not encoded. So `msgspec.json.encode` of a message
is OpenAI's JSON, and two questions are the same exactly if their encodings are.
"""

from collections.abc import Iterable
from operator import attrgetter
from typing import Any, Literal

import msgspec

from inference.contract.stages import Operation

GENERATION: frozenset[Operation] = frozenset(("chat", "text_completion"))
Role = Literal["system", "developer", "user", "assistant", "tool", "function"]
Prompt = str | tuple[int, ...]
"""Text, or token ids."""


class ImageUrl(msgspec.Struct, frozen=True, omit_defaults=True):
    """An image, as a `data:` or `https:` URL. The gateway never fetches it."""

    url: str
    detail: str = ""


class Part(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a message: of `type` "text" with `text`, or "image_url" with `image_url`."""

    type: Literal["text", "image_url"]
    text: str | None = None
    image_url: ImageUrl | None = None


class Function(msgspec.Struct, frozen=True):
    name: str
    arguments: str  # JSON as the model wrote it


class ToolCall(msgspec.Struct, frozen=True):
    """A call of a function that the assistant made in an earlier turn."""

    id: str
    function: Function
    type: Literal["function"] = "function"


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    role: Role
    content: str | tuple[Part, ...] | None = None
    name: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    reasoning: str = ""  # of an assistant's earlier turn, whatever name the client gave it


class Question(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """None, or empty, where the client leaves a parameter out: the server's own default then counts.

    `max_tokens` is also what clients send as `max_completion_tokens`. `dimensions` and `input` belong to embeddings,
    `prompt` to text completions (several are a batch), and `messages` to chats. JSON objects (`tools`, `response_format`,
    `tool_choice`, `chat_template_kwargs`, `structured_outputs`) are as the client sent them, because the order of their
    keys may decide the answer.
    """

    operation: Operation
    messages: tuple[Message, ...] = ()
    prompt: tuple[Prompt, ...] = ()
    input: tuple[Prompt, ...] = ()
    dimensions: int | None = None
    suffix: str = ""
    echo: bool = False
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    n: int = 1
    stop: tuple[str, ...] = ()
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    logprobs: int | None = None  # of a chat 1; of a text completion the number of tokens
    top_logprobs: int | None = None
    tools: tuple[dict[str, Any], ...] = ()
    tool_choice: str | dict[str, Any] = ""
    parallel_tool_calls: bool | None = None
    response_format: dict[str, Any] | None = None
    reasoning_effort: str = ""
    # What several servers take beyond OpenAI's parameters (docs/gateway.md).
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    min_tokens: int | None = None
    stop_token_ids: tuple[int, ...] = ()
    bad_words: tuple[str, ...] = ()
    ignore_eos: bool | None = None
    skip_special_tokens: bool | None = None
    include_stop_str_in_output: bool | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    structured_outputs: dict[str, Any] | None = None

    @property
    def deterministic(self) -> bool:
        """Whether the same model gives the same answer again."""
        return self.temperature == 0 or self.seed is not None or self.operation == "embeddings"

    @property
    def choices(self) -> int:
        """How many choices its answer has."""
        return self.n * max(1, len(self.prompt))

    @property
    def images(self) -> int:
        """How many images its messages have."""
        return sum(
            part.image_url is not None
            for message in self.messages
            if type(message.content) is tuple
            for part in message.content
        )

    @property
    def prompt_param(self) -> str:
        """The parameter that holds the prompt."""
        return "messages" if self.operation == "chat" else "prompt" if self.operation == "text_completion" else "input"


_encode = msgspec.msgpack.Encoder().encode
_MODEL_FREE = ("operation", "messages", "prompt", "input")  # every question has some of them


def encode(question: Question) -> bytes:
    """The question's bytes, for hashing. They are equal exactly if the questions are."""
    return _encode(question)


def parameters(question: Question) -> list[str]:
    """The names of what the question uses beyond plain text, as `Capabilities` has them.

    Besides the names of fields: `image_url`, `tool_calls` (in earlier turns), `token_ids` (as a prompt) and `batch` (of
    prompts).
    """
    used = [name for name in _USUAL if getattr(question, name) is not None]
    values = _values(question)
    if values != _default_values:
        used += [name for (name, default), value in zip(_RARE, values, strict=True) if value != default]
    for message in question.messages:
        if message.tool_calls or message.tool_call_id:
            used.append("tool_calls")
        if type(message.content) is tuple and any(part.image_url is not None for part in message.content):
            used.append("image_url")
    if question.operation == "chat":
        return used
    for prompts in (question.prompt, question.input):
        if any(type(prompt) is tuple for prompt in prompts):
            used.append("token_ids")
    if len(question.prompt) > 1:
        used.append("batch")
    return used


def without(question: Question, names: Iterable[str]) -> Question:
    """The question with the server's defaults for `names`."""
    defaults = dict(_DEFAULTS)
    return msgspec.structs.replace(question, **{name: defaults[name] for name in names if name in defaults})


_DEFAULTS = [(field.name, field.default) for field in msgspec.structs.fields(Question) if field.name not in _MODEL_FREE]
_USUAL = ("max_tokens", "temperature", "seed")
_RARE = [(name, default) for name, default in _DEFAULTS if name not in _USUAL]
_values = attrgetter(*(name for name, _ in _RARE))
_default_values = tuple(default for _, default in _RARE)
PARAMETERS = (*(name for name, _ in _DEFAULTS), "image_url", "tool_calls", "token_ids", "batch")
"""All names that `parameters` may give."""
