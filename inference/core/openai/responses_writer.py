"""Encodes the answers of /v1/responses, whole and as the events that the official client reads, in its order
(openai-python, `src/openai/types/responses/`).
"""

from typing import Any

import msgspec

from inference.core.events import Choice, Event, ToolCallDelta, WholeAnswer
from inference.core.openai.errors import ApiError
from inference.core.openai.responses_schema import ResponsesRequest
from inference.core.openai.writers import Writer

_encode = msgspec.json.encode
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


class _Open:
    """An item of a stream that has begun."""

    __slots__ = ("after_text", "before_text", "data", "index", "parts")

    def __init__(self, index: int, data: dict[str, Any]) -> None:
        self.index = index
        self.data = data
        self.parts: list[str] = []
        self.before_text = self.after_text = b""


class ResponsesWriter(Writer):
    """`identity` is unique per answer; `created` is seconds since the epoch."""

    def __init__(self, identity: str, created: int, model: str, request: ResponsesRequest) -> None:
        self._identity = identity
        self._created = created
        self._model = model
        self._request = request
        self._number = 0  # of the next event
        self._items: list[_Open] = []
        self._text: _Open | None = None  # a message or reasoning under way
        self._calls: dict[int, _Open] = {}
        self._logprobs: list[Any] = []

    def first(self, prompt_tokens: int) -> bytes:
        response = self._response("in_progress", [])
        return self._event("response.created", response=response) + self._event(
            "response.in_progress", response=response
        )

    def event(self, event: Event) -> bytes:
        text, _, _, reasoning, tool_calls, logprobs, *_ = event
        item = self._text
        if text and not (reasoning or tool_calls or logprobs) and item is not None and item.data["type"] == "message":
            return self._delta(item, text)  # a token of text, as a rule
        out = self._more("reasoning", reasoning) if reasoning else b""
        if text:
            out += self._more("message", text, logprobs)
        for delta in tool_calls:
            out += self._call(delta)
        return out

    def end(self, answer: WholeAnswer) -> bytes:
        choice = answer.choices[0] if answer.choices else Choice("", "stop")
        out = self._close_text()
        if not self._items and not choice.tool_calls:
            out += self._open(self._message("in_progress", "", b"")) + self._close_text()
        for item in self._calls.values():
            arguments = "".join(item.parts)
            item.data |= {"arguments": arguments, "status": "completed"}
            place = {"item_id": item.data["id"], "output_index": item.index}
            out += self._event("response.function_call_arguments.done", **place, arguments=arguments)
            out += self._event("response.output_item.done", output_index=item.index, item=item.data)
        response = self._ended(choice, [item.data for item in self._items], answer)
        return out + self._event(f"response.{response['status']}", response=response)

    def whole(self, answer: WholeAnswer) -> bytes:
        choice = answer.choices[0]
        output: list[dict[str, Any]] = []
        if choice.reasoning:
            output.append(self._reasoning("completed", choice.reasoning))
        if choice.text or not choice.tool_calls:
            output.append(self._message("completed", choice.text, choice.logprobs))
        for number, call in enumerate(choice.tool_calls):
            output.append(self._function_call(number, call.id, call.name, call.arguments, "completed"))
        return _encode(self._ended(choice, output, answer))

    def error(self, error: ApiError) -> bytes:
        """The documented fields, and `error`, without which the official client does not raise it."""
        nested = msgspec.json.decode(error.body())["error"]
        fields = {"code": error.code, "message": nested["message"], "param": nested["param"], "error": nested}
        return self._event("error", **fields)

    def _event(self, kind: str, **fields: Any) -> bytes:
        number, self._number = self._number, self._number + 1
        return b"event: %s\ndata: %s\n\n" % (
            kind.encode(),
            _encode({"type": kind, "sequence_number": number, **fields}),
        )

    # Items of a stream ----------------------------------------------------------------------------

    def _more(self, kind: str, text: str, logprobs: bytes = b"") -> bytes:
        """More text of an item of this kind, which begins where none is under way."""
        out = b""
        if self._text is None or self._text.data["type"] != kind:
            out = self._close_text()
            out += self._open(
                self._message("in_progress", "", b"") if kind == "message" else self._reasoning("in_progress", "")
            )
        assert self._text is not None
        return out + self._delta(self._text, text, logprobs)

    def _open(self, data: dict[str, Any]) -> bytes:
        item = _Open(len(self._items), data)
        self._items.append(item)
        self._text = item
        place = {"item_id": data["id"], "output_index": item.index, "content_index": 0}
        part, data["content"] = data["content"][0], []
        kind = "response.output_text.delta" if data["type"] == "message" else "response.reasoning_text.delta"
        head = _encode({"type": kind, **place})[:-1]
        item.before_text = b"event: %s\ndata: %s" % (kind.encode(), head)
        item.after_text = b',"logprobs":[]}\n\n' if data["type"] == "message" else b"}\n\n"
        return self._event("response.output_item.added", output_index=item.index, item=data) + self._event(
            "response.content_part.added", **place, part=part
        )

    def _delta(self, item: _Open, text: str, logprobs: bytes = b"") -> bytes:
        item.parts.append(text)
        number, self._number = self._number, self._number + 1
        after = item.after_text
        if logprobs:
            tokens = _tokens(logprobs)
            self._logprobs += tokens
            after = b',"logprobs":' + _encode(tokens) + b"}\n\n"
        return b'%s,"sequence_number":%d,"delta":%s%s' % (item.before_text, number, _encode(text), after)

    def _close_text(self) -> bytes:
        item, self._text = self._text, None
        if item is None:
            return b""
        text, data = "".join(item.parts), item.data
        place = {"item_id": data["id"], "output_index": item.index, "content_index": 0}
        data["status"] = "completed"
        if data["type"] == "message":
            part: dict[str, Any] = _output_text(text, self._logprobs)
            out = self._event("response.output_text.done", **place, text=text, logprobs=self._logprobs)
            self._logprobs = []
        else:
            part = {"type": "reasoning_text", "text": text}
            out = self._event("response.reasoning_text.done", **place, text=text)
        data["content"] = [part]
        out += self._event("response.content_part.done", **place, part=part)
        return out + self._event("response.output_item.done", output_index=item.index, item=data)

    def _call(self, delta: ToolCallDelta) -> bytes:
        out, item = b"", self._calls.get(delta.number)
        if item is None:
            out = self._close_text()
            data = self._function_call(delta.number, delta.id, delta.name, "", "in_progress")
            item = self._calls[delta.number] = _Open(len(self._items), data)
            self._items.append(item)
            out += self._event("response.output_item.added", output_index=item.index, item=data)
        if delta.arguments:
            item.parts.append(delta.arguments)
            place = {"item_id": item.data["id"], "output_index": item.index}
            out += self._event("response.function_call_arguments.delta", **place, delta=delta.arguments)
        return out

    # Objects --------------------------------------------------------------------------------------

    def _message(self, status: str, text: str, logprobs: bytes) -> dict[str, Any]:
        number = sum(item.data["type"] == "message" for item in self._items)
        content = [_output_text(text, _tokens(logprobs))]
        identity = f"msg_{self._identity}{number or ''}"
        return {"id": identity, "type": "message", "role": "assistant", "status": status, "content": content}

    def _reasoning(self, status: str, text: str) -> dict[str, Any]:
        number = sum(item.data["type"] == "reasoning" for item in self._items)
        content = [{"type": "reasoning_text", "text": text}]
        identity = f"rs_{self._identity}{number or ''}"
        return {"id": identity, "type": "reasoning", "summary": [], "status": status, "content": content}

    def _function_call(self, number: int, call_id: str, name: str, arguments: str, status: str) -> dict[str, Any]:
        return {
            "id": f"fc_{self._identity}_{number}",
            "type": "function_call",
            "call_id": call_id,
            "name": name,
            "arguments": arguments,
            "status": status,
        }

    def _ended(self, choice: Choice, output: list[dict[str, Any]], answer: WholeAnswer) -> dict[str, Any]:
        reason = _INCOMPLETE.get(choice.finish_reason)
        if reason and output:
            output[-1] = output[-1] | {"status": "incomplete"}
        response = self._response("incomplete" if reason else "completed", output)
        if reason:
            response["incomplete_details"] = {"reason": reason}
        prompt, written = max(0, answer.prompt_tokens), max(0, answer.output_tokens)
        response["usage"] = {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": max(0, answer.cached_tokens), "cache_write_tokens": 0},
            "output_tokens": written,
            "output_tokens_details": {"reasoning_tokens": max(0, answer.reasoning_tokens)},
            "total_tokens": prompt + written,
        }
        return response

    def _response(self, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
        """The object, with what the client sent."""
        request = self._request
        reasoning = request.reasoning
        return {
            "id": f"resp_{self._identity}",
            "object": "response",
            "created_at": self._created,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": request.instructions,
            "max_output_tokens": request.max_output_tokens,
            "metadata": request.metadata or {},
            "model": self._model,
            "output": output,
            "parallel_tool_calls": request.parallel_tool_calls is not False,
            "previous_response_id": None,
            "reasoning": {"effort": reasoning.effort if reasoning else None, "summary": None},
            "store": False,
            "temperature": request.temperature,
            "text": {"format": (request.text.format if request.text else None) or {"type": "text"}},
            "tool_choice": request.tool_choice or "auto",
            "tools": request.tools or [],
            "top_p": request.top_p,
            "truncation": "disabled",
            "usage": None,
        }


def _output_text(text: str, tokens: list[Any]) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": tokens}


def _tokens(logprobs: bytes) -> list[Any]:
    """The tokens of a chat's `logprobs`."""
    tokens: list[Any] = (msgspec.json.decode(logprobs).get("content") or []) if logprobs else []
    return tokens
