"""Lays out a question for a model's chat template, as vLLM does (`vllm/renderers/`), and keeps its texts from becoming control
tokens where a server applies the template itself.
"""

from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import msgspec

from inference.core.question import Function, Message, Part, Question, ToolCall
from inference.core.templates.control import ControlTokens
from inference.core.templates.errors import ChatTemplateError

if TYPE_CHECKING:  # the gateway itself renders none, and need not load Jinja
    from inference.core.templates.chat_template import ChatTemplate

_THINK, _THINK_END = "<think>", "</think>"


def render(question: Question, template: "ChatTemplate") -> str:
    """The prompt of a chat, with the marks of the template's `control` in texts of the client. Raises ChatTemplateError."""
    messages = [_variables(message, template.takes_parts) for message in question.messages]
    extra = dict(question.chat_template_kwargs or {})
    if question.reasoning_effort:
        extra.setdefault("reasoning_effort", question.reasoning_effort)
    unfinished = question.continue_final_message is True
    return template.render(
        messages,
        [] if question.tool_choice == "none" else list(question.tools),
        begin_answer=question.add_generation_prompt is not False and not unfinished,
        end_after=text_of(question.messages[-1]).strip() if unfinished else "",
        extra=extra,
    )


def text_of(message: Message) -> str:
    """The text of a message, its parts joined by line ends, without its images."""
    if isinstance(message.content, tuple):
        return "\n".join(part.text or "" for part in message.content if part.image_url is None)
    return message.content or ""


def as_openai(question: Question) -> tuple[list[dict[str, Any]], list[dict[str, Any]], bool]:
    """Messages in OpenAI's form, without images; tools; and whether the last message is to be continued."""
    messages = [
        msgspec.to_builtins(msgspec.structs.replace(message, content=text_of(message), reasoning=""))
        for message in question.messages
    ]
    tools = [] if question.tool_choice == "none" else list(question.tools)
    return messages, tools, question.continue_final_message is True


def _variables(message: Message, takes_parts: bool) -> dict[str, Any]:
    """A message as templates read it. Arguments of tool calls are objects. Reasoning has a field of its own also where the
    client left it in the text, which models expect without the reasoning of earlier turns.
    """
    content: Any = message.content if message.content is not None else ""
    reasoning = message.reasoning
    if isinstance(content, tuple):
        if takes_parts:
            content = [_part(part) for part in content]
        elif any(part.image_url is not None for part in content):
            raise ChatTemplateError("the model's chat template has no place for images")
        else:
            content = text_of(message)
    if message.role == "assistant" and isinstance(content, str):
        begin, end, rest = content.partition(_THINK_END)
        if end and begin.lstrip().startswith(_THINK):
            reasoning, content = reasoning or begin.lstrip().removeprefix(_THINK).strip(), rest.lstrip("\n")
    variables: dict[str, Any] = {"role": message.role, "content": content}
    if reasoning:
        variables["reasoning_content"] = variables["reasoning"] = reasoning
    if message.name:
        variables["name"] = message.name
    if message.tool_call_id:
        variables["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        variables["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.function.name, "arguments": _arguments(call)}}
            for call in message.tool_calls
        ]
    return variables


def _part(part: Part) -> dict[str, Any]:
    return {"type": "image"} if part.image_url is not None else {"type": "text", "text": part.text or ""}


def _arguments(call: ToolCall) -> Any:
    try:
        arguments = msgspec.json.decode(call.function.arguments)
    except msgspec.DecodeError:
        return call.function.arguments
    return arguments if isinstance(arguments, dict) else call.function.arguments


def neutralised(question: Question, control: ControlTokens) -> Question:
    """The question without control tokens in what clients send in a chat: the same object where there are none. Prompts of
    text completions are the client's whole, and stay as they are. Raises ForgedTokenError.

    An assistant's text keeps the `<think>…</think>` that it begins with.
    """
    if question.operation != "chat":
        return question
    changes: dict[str, Any] = {}
    if not all(_is_clean(message, control) for message in question.messages):
        messages = tuple(_clean_message(message, control) for message in question.messages)
        if messages != question.messages:
            changes["messages"] = messages
    for name in ("tools", "chat_template_kwargs", "tool_choice"):
        value = getattr(question, name)
        if value and (clean := _clean_all(value, control.broken)) != value:
            changes[name] = clean
    return msgspec.structs.replace(question, **changes) if changes else question


def _is_clean(message: Message, control: ControlTokens) -> bool:
    """Whether a message is text alone, without control tokens, as most are."""
    others = message.name or message.tool_call_id or message.reasoning or message.tool_calls
    return type(message.content) is str and not others and not control.in_text(message.content)


def _clean_message(message: Message, control: ControlTokens) -> Message:
    changes: dict[str, Any] = {}
    content = message.content
    if isinstance(content, str):
        clean: Any = _clean_text(content, message.role, control)
    elif content:
        clean = _clean_parts(content, control)
    else:
        clean = content
    if clean != content:
        changes["content"] = clean
    for name in ("name", "tool_call_id", "reasoning"):
        value = getattr(message, name)
        if value and (text := control.broken(value)) != value:
            changes[name] = text
    calls = tuple(_clean_call(call, control) for call in message.tool_calls)
    if calls != message.tool_calls:
        changes["tool_calls"] = calls
    return msgspec.structs.replace(message, **changes) if changes else message


def _clean_text(text: str, role: str, control: ControlTokens) -> str:
    if role == "assistant" and text.lstrip().startswith(_THINK) and _THINK_END in text:
        reasoning, _, rest = text.lstrip().removeprefix(_THINK).partition(_THINK_END)
        return f"{_THINK}{control.broken(reasoning)}{_THINK_END}{control.broken(rest)}"
    return control.broken(text)


def _clean_parts(parts: tuple[Part, ...], control: ControlTokens) -> tuple[Part, ...]:
    """Servers join texts of parts, also those with an image between them, directly or with a line end."""
    texts = [control.broken(part.text or "") for part in parts]
    ends = list(accumulate(map(len, texts)))
    for begin, _ in list(control.spans("".join(texts))):
        # It reaches over several parts. A zero-width space keeps them apart, also where a template strips white space.
        number = bisect_right(ends, begin)
        texts[number] = texts[number].rstrip("\u200b") + "\u200b"
    return tuple(
        part if text == (part.text or "") else msgspec.structs.replace(part, text=text)
        for part, text in zip(parts, texts, strict=True)
    )


def _clean_call(call: ToolCall, control: ControlTokens) -> ToolCall:
    name, arguments = control.broken(call.function.name), call.function.arguments
    if control.in_text(arguments) or "\\u" in arguments:
        try:
            value = msgspec.json.decode(arguments)
            clean = _clean_all(value, control.broken)
            arguments = msgspec.json.encode(clean).decode() if clean != value else arguments
        except msgspec.DecodeError:
            arguments = control.broken(arguments)
    identity = control.broken(call.id)
    if (name, arguments, identity) == (call.function.name, call.function.arguments, call.id):
        return call
    return ToolCall(identity, Function(name, arguments))


def _clean_all(value: Any, clean: Callable[[str], str]) -> Any:
    """A JSON value with all its texts cleaned, keys of objects included."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(key): _clean_all(item, clean) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([_clean_all(item, clean) for item in value])
    return value
