"""Makes the model's question from a client's request.

The model gets exactly what is hashed, so two requests with one cache key are the same question by construction.
Unified: line ends; white space around a chat message (inside one it may be code, and stays); a text and a list with it
as the only part; defaults and their absence, where every server has the same default; `max_tokens` and
`max_completion_tokens`; a seed at temperature 0, where nothing is drawn; vLLM's former `guided_*` and its
`structured_outputs`. Dropped: what `inference.core.openai.checks.dropped` names.
"""

from typing import Any

from inference.core.openai import schema
from inference.core.openai.checks import prompts_of
from inference.core.openai.schema import ChatRequest, CompletionRequest, EmbeddingRequest
from inference.core.question import Function, ImageUrl, Message, Part, Prompt, Question, ToolCall


def chat(request: ChatRequest, plain: bool, max_output_tokens: int) -> Question:
    """`plain` says that it has none but the usual parameters."""
    messages = tuple(map(_message, request.messages))
    if plain:
        return Question(operation="chat", messages=messages, **_usual(request, max_output_tokens))
    choice = request.tool_choice or ""
    return Question(
        operation="chat",
        messages=messages,
        logprobs=1 if request.logprobs else None,
        top_logprobs=request.top_logprobs or None,
        tools=tuple(request.tools or ()),
        tool_choice=choice if request.tools and choice != "auto" else "",
        parallel_tool_calls=request.parallel_tool_calls if request.tools else None,
        reasoning_effort=request.reasoning_effort or "",
        add_generation_prompt=None if request.add_generation_prompt else request.add_generation_prompt,
        continue_final_message=request.continue_final_message or None,
        chat_template_kwargs=request.chat_template_kwargs or None,
        **_common(request, max_output_tokens),
    )


def completion(request: CompletionRequest, max_output_tokens: int) -> Question:
    """The prompt with unified line ends. White space at its end is part of the question."""
    return Question(
        operation="text_completion",
        prompt=tuple(map(_prompt, prompts_of(request.prompt, "prompt"))),
        suffix=request.suffix or "",
        echo=bool(request.echo),
        logprobs=request.logprobs,
        **_common(request, max_output_tokens),
    )


def embedding(request: EmbeddingRequest) -> Question:
    """Every character counts."""
    return Question(
        operation="embeddings", input=tuple(prompts_of(request.input, "input")), dimensions=request.dimensions
    )


def _usual(request: ChatRequest | CompletionRequest, max_output_tokens: int) -> dict[str, Any]:
    temperature = None if request.temperature is None else abs(request.temperature)  # abs: -0.0 is 0
    limit = request.output_limit
    return {
        "max_tokens": None if limit is None else min(limit, max_output_tokens),
        "temperature": temperature,
        "seed": None if temperature == 0 else request.seed,
    }


def _common(request: ChatRequest | CompletionRequest, max_output_tokens: int) -> dict[str, Any]:
    fields, bias = _usual(request, max_output_tokens), request.logit_bias
    if request.top_p is not None:
        fields["top_p"] = request.top_p
    if request.n is not None:
        fields["n"] = request.n
    if request.stop:
        fields["stop"] = (request.stop,) if isinstance(request.stop, str) else tuple(request.stop)
    for name in ("presence_penalty", "frequency_penalty"):
        if value := getattr(request, name):
            fields[name] = value
    if bias:
        fields["logit_bias"] = dict(sorted(bias.items()))
    if request.response_format is not None and request.response_format["type"] != "text":
        fields["response_format"] = request.response_format
    for name in _EXTRAS:
        value = getattr(request, name)
        if value is not None:
            fields[name] = value if not isinstance(value, list) else tuple(value)
    for guide in ("json", "regex", "choice", "grammar"):
        value = getattr(request, f"guided_{guide}")
        if value is not None:
            fields["structured_outputs"] = {guide: value}
    return fields


_EXTRAS = (
    "top_k",
    "min_p",
    "repetition_penalty",
    "min_tokens",
    "stop_token_ids",
    "bad_words",
    "ignore_eos",
    "skip_special_tokens",
    "include_stop_str_in_output",
    "structured_outputs",
)


def _message(message: schema.Message) -> Message:
    content = message.content
    if type(content) is str and not message.tool_calls and not message.tool_call_id:
        return Message(message.role, _lines(content).strip(), message.name or "", reasoning=_reasoning(message))
    calls = tuple(
        ToolCall(call.id, Function(call.function.name, call.function.arguments)) for call in message.tool_calls or ()
    )
    return Message(
        message.role, _content(message), message.name or "", calls, message.tool_call_id or "", _reasoning(message)
    )


def _reasoning(message: schema.Message) -> str:
    return message.reasoning or message.reasoning_content or ""


def _content(message: schema.Message) -> str | tuple[Part, ...] | None:
    """A text where there is no more than that, else the parts."""
    content = message.content
    if content is None:
        return message.refusal
    if isinstance(content, str):
        return _lines(content).strip()
    parts = tuple(map(_part, content))
    if len(parts) == 1 and parts[0].text is not None:
        return parts[0].text.strip()
    return parts


def _part(part: schema.Part) -> Part:
    if part.image_url is not None:
        detail = part.image_url.detail or ""
        return Part("image_url", image_url=ImageUrl(part.image_url.url, detail if detail != "auto" else ""))
    return Part("text", _lines(part.text or part.refusal or ""))


def _prompt(prompt: Prompt) -> Prompt:
    return _lines(prompt) if isinstance(prompt, str) else prompt


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
