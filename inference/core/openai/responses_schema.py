"""Reads the bodies of /v1/responses, and makes chat requests of them.

Nothing of a response is kept: what belongs to a conversation comes with each request, and what would need a stored response
is refused (openai-python, `src/openai/types/responses/response_create_params.py`).
"""

from typing import Any, Literal, NamedTuple

import msgspec

from inference.core.openai import checks, errors, schema
from inference.core.openai.errors import ApiError
from inference.core.openai.schema import ChatRequest
from inference.core.question import Role


class Item(schema.Strict):
    """Of `input`: a message, a call of a function, its output, or the reasoning of an earlier turn."""

    type: str = "message"
    role: Role | None = None
    content: str | list[dict[str, Any]] | None = None
    id: str | None = None
    status: str | None = None
    phase: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: str | list[dict[str, Any]] | None = None
    summary: list[dict[str, Any]] | None = None
    encrypted_content: str | None = None


class Reasoning(schema.Strict):
    effort: str | None = None
    summary: str | None = None
    generate_summary: str | None = None


class Text(schema.Strict):
    format: dict[str, Any] | None = None
    verbosity: str | None = None


class ResponsesRequest(schema.Strict, kw_only=True):
    """Fields typed `Any` are refused or dropped."""

    model: str
    input: str | list[Item]
    instructions: str | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    text: Text | None = None
    reasoning: Reasoning | None = None
    stream: bool | None = None
    stream_options: schema.StreamOptions | None = None
    top_logprobs: int | None = None
    include: list[str] | None = None
    metadata: dict[str, Any] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    user: Any = None
    store: Any = None
    service_tier: Any = None
    safety_identifier: Any = None
    prompt_cache_key: Any = None
    prompt_cache_retention: Any = None
    previous_response_id: Any = None
    conversation: Any = None
    background: Any = None
    prompt: Any = None
    max_tool_calls: Any = None
    context_management: Any = None


class Read(NamedTuple):
    """A request as a chat; `dropped` has no effect here."""

    request: ResponsesRequest
    chat: ChatRequest
    dropped: list[str]


_decoder = msgspec.json.Decoder(ResponsesRequest)
_STATELESS = "responses are not stored here: send the whole conversation as `input`"
_REFUSED: tuple[tuple[str, tuple[Any, ...], str], ...] = (
    ("previous_response_id", (None, ""), _STATELESS),
    ("conversation", (None,), _STATELESS),
    ("background", (None, False), "wait for the answer, or stream it"),
    ("prompt", (None,), "send its text as `instructions` and `input`"),
    ("max_tool_calls", (None,), "models here call functions only, which the client runs"),
    ("context_management", (None, []), "shorten `input` before it is sent"),
    ("truncation", (None, "disabled"), "shorten `input` before it is sent"),
)
_NAMES = (
    ("response_format.json_schema", "text.format"),
    ("response_format", "text.format"),
    ("max_completion_tokens", "max_output_tokens"),
    (".function.", "."),
)
_LOGPROBS = "message.output_text.logprobs"


def read(body: bytes) -> Read:
    """The body, checked. Raises ApiError."""
    request = schema.decode(_decoder, body)
    for name, neutral, remedy in _REFUSED:
        if getattr(request, name) not in neutral:
            raise errors.unsupported(name, remedy)
    messages = _messages(request)
    if not messages or len(messages) > checks.MAX_MESSAGES:
        raise errors.invalid(f"`input` has {len(messages)} items, 1 to {checks.MAX_MESSAGES} are taken.", "input")
    try:
        chat = ChatRequest(
            model=request.model,
            messages=messages,
            max_completion_tokens=request.max_output_tokens,
            temperature=request.temperature,
            top_p=request.top_p,
            tools=[_tool(index, tool) for index, tool in enumerate(request.tools or ())],
            tool_choice=_tool_choice(request.tool_choice),
            parallel_tool_calls=request.parallel_tool_calls,
            reasoning_effort=request.reasoning.effort if request.reasoning else None,
            response_format=_format(request.text.format) if request.text and request.text.format else None,
            logprobs=_LOGPROBS in (request.include or ()) or None,
            top_logprobs=request.top_logprobs if _LOGPROBS in (request.include or ()) else None,
            stream=request.stream,
        )
        checks.check_chat(chat)
    except ApiError as error:
        for before, after in _NAMES:
            error.param = error.param.replace(before, after) if error.param else error.param
            error.message = error.message.replace(before, after)
        raise
    return Read(request, chat, [*checks.dropped(request), *_dropped(request)])


def _dropped(request: ResponsesRequest) -> list[str]:
    out = []
    if request.text is not None and request.text.verbosity not in (None, "medium"):
        out.append("text.verbosity")
    if request.reasoning is not None and (request.reasoning.summary or request.reasoning.generate_summary):
        out.append("reasoning.summary")
    if request.top_logprobs and _LOGPROBS not in (request.include or ()):
        out.append("top_logprobs")
    wanted = [name for name in request.include or () if name != _LOGPROBS and name.isascii() and name.isprintable()]
    return out + [f"include[{name[:60]}]" for name in wanted]


def _messages(request: ResponsesRequest) -> list[schema.Message]:
    messages = [schema.Message("system", request.instructions)] if request.instructions else []
    if isinstance(request.input, str):
        return [*messages, schema.Message("user", request.input)]
    reasoning = ""
    for index, item in enumerate(request.input):
        where = f"input[{index}]"
        if item.type == "reasoning":
            reasoning += "".join(str(part.get("text", "")) for part in _parts(item.content or []))
        elif item.type == "function_call":
            before = messages[-1] if messages else None
            if before is None or before.role != "assistant":
                messages.append(before := schema.Message("assistant", tool_calls=[], reasoning=reasoning or None))
                reasoning = ""
            before.tool_calls = [*(before.tool_calls or []), _call(where, item)]
        elif item.type == "function_call_output":
            if not item.call_id or item.output is None:
                raise errors.invalid(f"`{where}` needs `call_id` and `output`.", where, "missing_required_parameter")
            messages.append(schema.Message("tool", _content(where, "output", item.output), tool_call_id=item.call_id))
        elif item.type == "message" and item.role is not None and item.content is not None:
            own = reasoning if item.role == "assistant" else ""
            reasoning = "" if own else reasoning
            messages.append(schema.Message(item.role, _content(where, "content", item.content), reasoning=own or None))
        elif item.type == "message":
            raise errors.invalid(f"`{where}` needs `role` and `content`.", where, "missing_required_parameter")
        else:
            known = "message, function_call, function_call_output and reasoning"
            raise errors.unsupported(f"{where}.type", f"items of type {known} are taken")
    return messages


def _call(where: str, item: Item) -> schema.ToolCall:
    if not item.call_id or not item.name or item.arguments is None:
        raise errors.invalid(f"`{where}` needs `call_id`, `name` and `arguments`.", where, "missing_required_parameter")
    return schema.ToolCall(item.call_id, schema.Function(item.name, item.arguments))


def _parts(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"text": content}] if isinstance(content, str) else content


def _content(where: str, field: str, content: str | list[dict[str, Any]]) -> str | list[schema.Part]:
    if isinstance(content, str):
        return content
    parts = []
    for number, part in enumerate(content):
        place, kind = f"{where}.{field}[{number}]", part.get("type")
        if kind in ("input_text", "output_text", "text") and isinstance(part.get("text"), str):
            parts.append(schema.Part("text", part["text"]))
        elif kind == "refusal" and isinstance(part.get("refusal"), str):
            parts.append(schema.Part("text", part["refusal"]))
        elif kind == "input_image" and isinstance(part.get("image_url"), str) and field == "content":
            checks.check_image(f"{place}.image_url", part["image_url"])
            detail = part.get("detail")
            parts.append(
                schema.Part(
                    "image_url",
                    image_url=schema.ImageUrl(part["image_url"], detail if detail in ("low", "high") else None),
                )
            )
        else:
            raise errors.unsupported(place, "parts of type `input_text`, `output_text` and `input_image` are taken")
    return parts


def _tool(index: int, tool: dict[str, Any]) -> dict[str, Any]:
    """The tool as chats have it: OpenAI's responses have the function's fields beside its type."""
    if tool.get("type") != "function":
        raise errors.unsupported(f"tools[{index}].type", "only tools of type `function` are taken")
    fields = ("name", "description", "parameters", "strict")
    return {"type": "function", "function": {name: tool[name] for name in fields if tool.get(name) is not None}}


def _tool_choice(choice: str | dict[str, Any] | None) -> str | dict[str, Any] | None:
    if not isinstance(choice, dict):
        return choice
    if choice.get("type") != "function":
        raise errors.unsupported("tool_choice.type", "use none, auto, required or a function")
    return {"type": "function", "function": {"name": choice.get("name")}}


def _format(form: dict[str, Any]) -> dict[str, Any]:
    if form.get("type") != "json_schema":
        return form
    return {"type": "json_schema", "json_schema": {name: value for name, value in form.items() if name != "type"}}
