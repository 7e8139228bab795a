"""Writes the bodies that OpenAI-compatible servers get, each in its dialect."""

from operator import attrgetter
from typing import Any

import msgspec

from inference.core.question import Message, Question
from inference.core.servers.dialects import Dialect

_encode = msgspec.json.encode
# These are written apart. The others have OpenAI's names and shapes.
_APART = ("operation", "messages", "prompt", "input", "max_tokens", "logprobs", "echo", "n")
_USUAL = ("temperature", "seed")
_RARE = tuple((f.name, f.default) for f in msgspec.structs.fields(Question) if f.name not in (*_APART, *_USUAL))
_values_of_rare = attrgetter(*(name for name, _ in _RARE))
_DEFAULTS_OF_RARE = tuple(default for _, default in _RARE)
_USAGE = {"include_usage": True}


def generation(
    question: Question, model: str, dialect: Dialect, *, max_tokens: int | None, priority: int | None, stream: bool
) -> bytes:
    """The body of a chat or text completion. `max_tokens` None and `priority` None are left out."""
    body: dict[str, Any] = {"model": model}
    if question.operation == "chat":
        body["messages"] = _messages(question.messages, dialect)
        if question.logprobs is not None:
            body["logprobs"] = bool(question.logprobs)
    else:
        body["prompt"] = question.prompt[0] if len(question.prompt) == 1 else question.prompt
        if question.logprobs is not None:
            body["logprobs"] = question.logprobs
        if question.echo:
            body["echo"] = True
    body["stream"] = stream
    if stream:
        body["stream_options"] = _USAGE
    if question.n != 1:
        body["n"] = question.n
    if max_tokens is not None:
        # trtllm-serve takes a chat's limit under this name alone (validation_alias in openai_protocol.py).
        body["max_tokens"] = max_tokens
    if priority is not None:
        body["priority"] = priority
    handling, renamed = dialect.capabilities.parameters, dialect.renamed
    used = [(name, value) for name in _USUAL if (value := getattr(question, name)) is not None]
    values = _values_of_rare(question)
    if values != _DEFAULTS_OF_RARE:
        used += [(name, value) for (name, default), value in zip(_RARE, values, strict=True) if value != default]
    for name, value in used:
        if handling[name] != "dropped":
            body[renamed.get(name, name)] = value
    return _encode(body)


def embeddings(question: Question, model: str, dialect: Dialect) -> bytes:
    """The body of a question for embeddings. They come as base64, which is a quarter as long as text."""
    body: dict[str, Any] = {"model": model, "input": question.input, "encoding_format": "base64"}
    if question.dimensions is not None:
        body["dimensions"] = question.dimensions
    return _encode(body)


def counting(question: Question, model: str, dialect: Dialect) -> bytes | None:
    """The body for the server's route that counts a prompt; None where it cannot count this one."""
    if question.operation == "chat":
        body: dict[str, Any] = {"model": model, "messages": _messages(question.messages, dialect)}
        if question.tools:
            body["tools"] = question.tools
        if question.chat_template_kwargs:
            body["chat_template_kwargs"] = question.chat_template_kwargs
        return _encode(body)
    if dialect.tokenize and len(question.prompt) == 1 and isinstance(question.prompt[0], str):
        return _encode({"model": model, "prompt": question.prompt[0]})
    return None


def _messages(messages: tuple[Message, ...], dialect: Dialect) -> Any:
    """The messages, with the reasoning of earlier turns under the server's name for it."""
    if not any(message.reasoning for message in messages) or dialect.reasoning_field == "reasoning":
        return messages
    renamed = []
    for message in messages:
        fields = msgspec.to_builtins(message)
        if reasoning := fields.pop("reasoning", ""):
            fields[dialect.reasoning_field] = reasoning
        renamed.append(fields)
    return renamed
