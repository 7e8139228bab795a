"""What two answers of one server to the same request have in common: all but ids, times, and where a stream parts its texts."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.support.transparent.compare import COUNTED, End
from tests.support.transparent.queries import Query

_OF_ONE_ANSWER = frozenset(("id", "item_id", "call_id", "created", "created_at", "completed_at", "sequence_number"))
_TEXTS = frozenset(
    ("content", "text", "reasoning", "reasoning_content", "arguments", "delta", "thinking", "partial_json")
)
_DIGITS = 2  # a server that computes other requests beside one gets slightly other numbers


class Ends(NamedTuple):
    """The official clients, at the server itself and at the gateway."""

    direct: End
    through: End


class Told(NamedTuple):
    """`body` is a document, or what a stream makes when it is put together. Answers that mean the same are equal."""

    status: int
    content_type: str
    body: Any

    @property
    def well(self) -> bool:
        """It is an answer, and no error."""
        return self.status == 200 and '"error"' not in json.dumps(self.body)


async def both(ends: Ends, query: Query) -> tuple[Told, Told]:
    """What each end is told, without what docs/gateway.md names: vLLM moves `system_fingerprint` to the counts that the gateway asks
    for.
    """
    direct, through = [told(*await end.send(query)) for end in ends]
    if query.streams and query.path in COUNTED and query.fields.get("stream_options") is None:
        for _, event in direct.body if isinstance(direct.body, list) else ():
            if isinstance(event, dict):
                event.pop("values of system_fingerprint", None)
    return direct, through


def told(status: int, content_type: str, body: bytes) -> Told:
    if content_type.startswith("text/event-stream"):
        return Told(status, content_type, _put_together(body))
    return Told(status, content_type, _plain(json.loads(body)))


def _put_together(stream: bytes) -> list[Any]:
    """Its events in their order, each run of parts of one text as one. The chunks of completions are one altogether, because those
    of several choices come in any order.
    """
    events = list[Any]()
    chunks: dict[str, Any] = {}
    for name, data in _events(stream):
        if not isinstance(data, dict):
            events.append([name, data])
        elif "choices" in data:
            if not chunks:
                events.append([name, chunks])
            _fold_chunk(chunks, data)
        else:
            if not (events and events[-1][0] == name and _is_part_of_a_text(name)):
                events.append([name, {}])
            _fold(events[-1][1], _plain(data))
    return events


def _events(stream: bytes) -> Iterator[tuple[str, Any]]:
    """Names and data. Comments are none."""
    for block in stream.replace(b"\r\n", b"\n").split(b"\n\n"):
        lines = [line.partition(b":") for line in block.split(b"\n") if line and not line.startswith(b":")]
        if lines:
            fields = {name.decode(): value.removeprefix(b" ").decode() for name, _, value in lines}
            data = fields.get("data", "")
            yield fields.get("event", ""), json.loads(data) if data.startswith("{") else data


def _is_part_of_a_text(name: str) -> bool:
    return "delta" in name and name != "message_delta"


def _fold_chunk(chunks: dict[str, Any], chunk: dict[str, Any]) -> None:
    """Take a chunk. Counts so far depend on where texts are parted: only the last are kept, and whether every chunk has some."""
    usage, choices = chunk.pop("usage", None), chunk.pop("choices")
    _fold(chunks, _plain(chunk))
    if (counted := [bool(choices), usage is not None]) not in (kinds := chunks.setdefault("has choices, usage", [])):
        kinds.append(counted)
    chunks["usage"] = usage if usage is not None else chunks.get("usage")
    for choice in choices:
        _fold(chunks.setdefault("choices", {}).setdefault(choice["index"], {}), _plain(choice))


def _fold(into: dict[str, Any], part: dict[str, Any]) -> None:
    """Add a part: texts and lists are continued, of other members each value is kept once."""
    for name, value in part.items():
        if isinstance(value, dict):
            _fold(into.setdefault(name, {}), value)
        elif isinstance(value, list) and name == "tool_calls":
            for call in value:
                _fold(into.setdefault(name, {}).setdefault(call["index"], {}), call)
        elif isinstance(value, list):
            into.setdefault(name, []).extend(value)
        elif isinstance(value, str) and name in _TEXTS:
            into[name] = into.get(name, "") + value
        elif value not in (values := into.setdefault(f"values of {name}", [])):
            values.append(value)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: "" if name in _OF_ONE_ANSWER and item is not None else _plain(item) for name, item in value.items()
        }
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return round(value, _DIGITS) if isinstance(value, float) else value
