"""Requests that wait by themselves: what is asked for, and how it is said how they stand. Each is a batch of a single line."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from controlplane.lane.core import lines, states
from controlplane.lane.core.items import listed
from controlplane.lane.core.lines import Check, Place, RefusedError
from inference.contract.lane import ENDPOINTS, RESPONSES
from inference.contract.lenient import reading

SOONEST = "soonest"
RESPONSE_WINDOW_S = {SOONEST: 3_600, "2h": 7_200, "8h": 28_800}
WINDOW_S = RESPONSE_WINDOW_S | lines.WINDOW_S
"""Of a job. Somebody waits for the soonest."""
MAX_URL_CHARS = 500
TO_TOPIC = "kafka:"
"""How the callback URL of a job begins whose result goes to the topic of results. No client can give one."""
_HERE = ("background", "background_options", "previous_response_id")
"""What the lane does, and not the model's servers."""
PREVIOUS = "previous_response_id"


Answer = tuple[int, msgspec.Raw]
"""Status and JSON, as it was written."""
NO_ANSWER: Answer = (0, msgspec.Raw(b"null"))


class NewJob(NamedTuple):
    """`text` is its line."""

    kind: str
    endpoint: str
    model: str
    completion_window: str
    metadata: dict[str, str] | None
    text: bytes
    callback_url: str = ""
    streams: bool = False
    previous: str = ""  # the response that it goes on from


class _Options(msgspec.Struct):
    completion_window: str = SOONEST


class _Response(msgspec.Struct):
    background_options: _Options | None = None
    store: bool | None = None
    stream: bool | None = None
    metadata: dict[str, str] | None = None
    previous_response_id: str | None = None


def new_response(body: bytes) -> NewJob:
    """Of the body of POST /v1/responses with `background: true`. Raises RefusedError."""
    members = lines.read(body, dict[str, msgspec.Raw], "response")
    wanted = lines.read(body, _Response, "response")
    if wanted.store is False:
        raise RefusedError("A background response is stored: leave `store` out.", "store")
    window = (wanted.background_options or _Options()).completion_window
    lines.one_of("background_options.completion_window", window, RESPONSE_WINDOW_S)
    lines.check_metadata(wanted.metadata)
    streams = wanted.stream is True
    if streams and window != SOONEST:
        raise RefusedError("A response that may take hours is not streamed: leave `stream` out.", "stream")
    here = (*_HERE, "stream") if streams else _HERE
    text, model = _of_response({name: value for name, value in members.items() if name not in here}, streams)
    previous = wanted.previous_response_id or ""
    return NewJob(states.RESPONSE, RESPONSES, model, window, wanted.metadata, text, streams=streams, previous=previous)


def _of_response(sent: Mapping[str, msgspec.Raw], streams: bool) -> tuple[bytes, str]:
    """Its line, and its model. Raises RefusedError."""
    text, model = _line(RESPONSES, sent)
    return (_text(RESPONSES, {**sent, "stream": msgspec.Raw(b"true")}) if streams else text), model


def going_on(wanted: NewJob, request: Mapping[str, Any], answer: Answer) -> NewJob:
    """With the conversation of an earlier response before its input: what that was asked, which has all before it, and what it answered.
    Raises RefusedError.
    """
    status_code, body = answer
    if status_code not in states.OK or not (before := members_of(body)):
        message = f"{wanted.previous} has no answer to go on from: wait until it is completed, or send all as `input`."
        raise RefusedError(message, PREVIOUS, "previous_response_not_answered")
    sent = members_of(lines.decode(wanted.text).body)
    sent.pop("stream", None)
    said, own = _value(before.get("output")), _value(sent.get("input"))
    whole = [*listed(request.get("input")), *listed(said), *listed(own)]
    text, _ = _of_response(sent | {"input": msgspec.Raw(msgspec.json.encode(whole))}, wanted.streams)
    return wanted._replace(text=text)


class _Callback(msgspec.Struct, forbid_unknown_fields=True):
    url: str


class _Job(msgspec.Struct, forbid_unknown_fields=True):
    endpoint: str
    body: dict[str, msgspec.Raw]
    completion_window: str = SOONEST
    metadata: dict[str, str] | None = None
    callback: _Callback | None = None


def new_job(body: bytes) -> NewJob:
    """Of the body of POST /v1/jobs. Where its callback may go is not checked. Raises RefusedError."""
    wanted = lines.read(body, _Job, "job")
    lines.one_of("endpoint", wanted.endpoint, sorted(ENDPOINTS))
    lines.one_of("completion_window", wanted.completion_window, WINDOW_S)
    lines.check_metadata(wanted.metadata)
    url = wanted.callback.url if wanted.callback else ""
    if wanted.callback and not 0 < len(url) <= MAX_URL_CHARS:
        raise RefusedError(f"`callback.url` needs 1 to {MAX_URL_CHARS} characters.", "callback.url")
    text, model = _line(wanted.endpoint, wanted.body, "body.")
    return NewJob(states.JOB, wanted.endpoint, model, wanted.completion_window, wanted.metadata, text, url)


def _line(endpoint: str, body: Mapping[str, msgspec.Raw], where: str = "") -> tuple[bytes, str]:
    """The line of a batch with this body alone, and its model. `where` the body is in what came. Raises RefusedError."""
    text = _text(endpoint, body)
    if len(text) > lines.MAX_LINE_BYTES:
        raise RefusedError(f"The body has more than {lines.MAX_LINE_BYTES} bytes: shorten it.")
    check = Check(endpoint)
    check.take(text, Place(1, 0, len(text)))
    for problem in check.problems:
        param = problem.param.replace("body.", where)
        raise RefusedError(problem.message.replace("`body.", f"`{where}"), param or None, problem.code)
    return text, check.model


def _text(endpoint: str, body: Mapping[str, msgspec.Raw]) -> bytes:
    return msgspec.json.encode({"custom_id": "1", "method": "POST", "url": endpoint, "body": body})


class _Result(msgspec.Struct):
    status_code: int
    body: msgspec.Raw


class _Written(msgspec.Struct):
    response: _Result | None = None


_written = msgspec.json.Decoder(_Written)


def answer_of(text: bytes) -> Answer:
    """What the line of a result says."""
    result = _written.decode(text).response
    return NO_ANSWER if result is None else (result.status_code, result.body)


def request_of(text: bytes) -> dict[str, Any]:
    """The body of a line."""
    return {name: _value(value) for name, value in members_of(lines.decode(text).body).items()}


def members_of(body: msgspec.Raw) -> dict[str, msgspec.Raw]:
    """As they are written; none where it is no object. Of an answer that is kept as a text, what can be read of it."""
    text = bytes(body)
    try:
        return _members(msgspec.json.decode(text, type=str).encode() if text.startswith(b'"') else text)
    except ValueError:
        return {}


_members = reading(dict[str, msgspec.Raw])


def _value(text: msgspec.Raw | None) -> Any:
    """Where a number of it is beyond all, its numbers stay as they are written."""
    try:
        return msgspec.json.decode(text or b"null")
    except msgspec.DecodeError:
        return json.loads(bytes(text or b""), parse_int=_as_written, parse_float=_as_written)


def _as_written(number: str) -> msgspec.Raw:
    return msgspec.Raw(number.encode())


_NOTHING: Mapping[str, Any] = {"error": None, "incomplete_details": None, "output": [], "usage": None}


def response(
    about: Mapping[str, Any], status: str, code: str, request: Mapping[str, Any], answer: Answer
) -> dict[str, Any]:
    """OpenAI's response object. `about` is what the lane says of it; `code` is of an error without an answer."""
    status_code, body = answer
    if status_code in states.OK and (said := members_of(body)):
        return {**said, **about, "status": status}
    out = {**_repeated(request), **_NOTHING, **about, "status": status}
    if status == states.FAILED:
        out["error"] = error_of(status_code, code, body)
    return out


def error_of(status_code: int, code: str, body: msgspec.Raw) -> dict[str, Any]:
    """Why there is no good answer: as the gateway or a server said, or by the `code`, where none answered."""
    if not status_code:
        return {"code": code.removeprefix("batch_"), "message": states.MESSAGES[code]}
    said = _value(members_of(body).get("error"))
    said = said if isinstance(said, dict) else {}
    unread = " with what is no response" if status_code in states.OK else ""
    message = said.get("message") or f"The model's server answered {status_code}{unread}."
    return {"code": str(said.get("code") or "server_error"), "message": str(message), "param": said.get("param")}


def _repeated(request: Mapping[str, Any]) -> dict[str, Any]:
    """What the client sent, as an answer repeats it."""
    given = {name: request[name] for name in _REPEATED if request.get(name) is not None}
    return {**_REPEATED, **given}


_REPEATED: Mapping[str, Any] = {
    "model": None,
    "instructions": None,
    "max_output_tokens": None,
    "parallel_tool_calls": True,
    "reasoning": {"effort": None, "summary": None},
    "service_tier": None,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
    "truncation": "disabled",
}
