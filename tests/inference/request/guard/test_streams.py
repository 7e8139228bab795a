"""Streams of each API are masked where a text goes on over their events, and where an event has all of it."""

import gzip
import json
from collections.abc import Sequence
from typing import Any
from unittest.mock import AsyncMock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contract.snapshot import GuardRule
from inference.core.events import Event, Head, Usage
from inference.core.guard.checking import Checking
from inference.core.guard.rules import guards_of
from inference.core.openai.errors import ApiError
from inference.request.guard.guards import refused
from inference.request.guard.stream import GuardedStream, whole_is_clean
from tests.support.gateway.guarded import CHECKS as ALL
from tests.support.gateway.guarded import words

SAID, MASKED = "Pay with 4111 1111 1111 1111 now.", "Pay with [card] now."
RULE = GuardRule("a/cards", "a", "patterns", "mask", answers=True, patterns=("card",))
CHECKS = guards_of([RULE], [], ["t"])["a", "t"].answers
CUT = [SAID[at : at + 4] for at in range(0, len(SAID), 4)]
STREAMS: dict[str, list[dict[str, Any]]] = {
    "completions": [{"choices": [{"index": 1, "text": part}]} for part in CUT],
    "chat": [{"choices": [{"index": 0, "delta": {"reasoning_content": part}}]} for part in CUT],
    "tools": [
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": part}}]}}]} for part in CUT
    ],
    "messages": [
        *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": part}} for part in CUT),
        {"type": "content_block_stop", "index": 0},
    ],
    "responses": [
        *({"type": "response.output_text.delta", "item_id": "i", "content_index": 0, "delta": part} for part in CUT),
        {"type": "response.output_text.done", "item_id": "i", "content_index": 0, "text": SAID},
        {"type": "response.completed", "response": {"output": [{"content": [{"type": "output_text", "text": SAID}]}]}},
    ],
}


class Given:
    """A server's stream, which comes as one event for each part, or as some at once."""

    waiting = False
    awaited_since_s = 0.0
    head: Head | None = Head(True, ())

    def __init__(self, documents: list[dict[str, Any]], at_once: int = 1) -> None:
        blocks = [b"event: x\ndata: " + json.dumps(each).encode() + b"\n\n" for each in documents]
        self._left = [b"".join(blocks[at : at + at_once]) for at in range(0, len(blocks), at_once)]

    async def sent(self) -> None: ...
    def cancel(self) -> None: ...

    async def next(self) -> Sequence[Event]:
        return (Event(tokens=1, raw=self._left.pop(0)),) if self._left else ()


async def said_of(stream: Any, checking: Checking) -> list[Event]:
    """All events that may be said, as a call of a replica reads them."""
    events = await stream.next()
    if whole_is_clean(stream.head, events, 1, checking.checks):
        return [*events]
    guarded = GuardedStream(stream, checking, (), refused)
    out = [*await guarded.said_of(events)]
    while not guarded.is_done and not (stream.head is None and out[-1].finish_reason):
        events = await stream.next()
        out += guarded.word(events) or await guarded.said_of(events)
    return out


def texts(value: Any) -> str:
    """All of a document, in its order."""
    if isinstance(value, dict):
        return "".join(texts(each) for name, each in value.items() if name not in ("type", "item_id"))
    return "".join(map(texts, value)) if isinstance(value, list) else value if isinstance(value, str) else ""


@pytest.mark.parametrize("api", STREAMS)
async def test_a_stream_is_masked_over_its_events_and_keeps_their_order(api: str) -> None:
    blocks = list[dict[str, Any]]()
    for event in await said_of(Given(STREAMS[api]), Checking(CHECKS, lambda *_: None)):
        blocks += [json.loads(block.partition(b"data: ")[2]) for block in event.raw.split(b"\n\n") if block]
    assert len(blocks) == len(STREAMS[api])
    assert [block.get("type") for block in blocks] == [block.get("type") for block in STREAMS[api]]
    assert texts(blocks) == texts(STREAMS[api]).replace(SAID, MASKED)


@given(words, words, st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=40), st.integers(1, 3))
async def test_cut_anywhere_a_stream_says_what_the_whole_would(
    content: list[str], reasoning: list[str], cuts: list[tuple[int, bool]], at_once: int
) -> None:
    """Two texts, of which now the one and now the other goes on, with an event of another kind between."""
    given_texts, documents = {"content": " ".join(content), "reasoning": " ".join(reasoning)}, list[dict[str, Any]]()
    left = dict(given_texts)
    while any(left.values()):
        size, is_first = cuts[len(documents) % len(cuts)]
        name = "content" if left["content"] and (is_first or not left["reasoning"]) else "reasoning"
        documents.append({"id": "x", "choices": [{"index": 0, "delta": {name: left[name][:size]}}]})
        left[name] = left[name][size:]
    documents.insert(len(documents) // 2, {"id": "x", "choices": [{"index": 0, "delta": {"content": "", "role": "a"}}]})
    noted, of_whole = [list[str](), list[str]()]
    events = await said_of(Given(documents, at_once), Checking(ALL, lambda rule, _: noted.append(rule)))
    said, blocks = {"content": "", "reasoning": ""}, 0
    for raw in b"".join(event.raw for event in events).split(b"\n\n")[:-1]:
        for name, text in json.loads(raw.partition(b"data: ")[2])["choices"][0]["delta"].items():
            said[name] = said.get(name, "") + text
        blocks += 1
    checking = Checking(ALL, lambda rule, _: of_whole.append(rule))
    assert {name: said[name] for name in given_texts} == {name: checking.text(it) for name, it in given_texts.items()}
    assert (noted, blocks) == (of_whole, len(documents))


@given(words, st.lists(st.integers(1, 20), min_size=1, max_size=20), st.lists(st.integers(1, 4), min_size=1))
async def test_events_that_come_together_say_what_the_whole_would_and_all_of_it_at_its_end(
    parts: list[str], sizes: list[int], batches: list[int]
) -> None:
    """Of an answer that is not handed on as it came, nobody reads on after its last event."""
    text, cut, stream = " ".join(parts), list[Event](), Given([])
    while len(left := text[sum(len(event.text) for event in cut) :]) > (size := sizes[len(cut) % len(sizes)]):
        cut.append(Event(left[:size]))
    given = [*cut, Event(left, finish_reason="stop", usage=Usage())]
    batched = list[list[Event]]()
    while given:
        size = batches[len(batched) % len(batches)]
        batched.append(given[:size])
        given = given[size:]
    stream.head, stream.next = None, AsyncMock(side_effect=[*batched])  # type: ignore[method-assign]
    events = await said_of(stream, Checking(ALL, lambda *_: None))
    assert len(events) == len(cut) + 1
    assert "".join(event.text for event in events) == Checking(ALL, lambda *_: None).text(text)


CARD = "4111 1111 1111 1111"


async def test_a_number_that_ends_one_text_is_not_hidden_by_what_begins_the_next() -> None:
    """Joined they would be another number, of a wrong length."""
    parts = [{"reasoning": "so "}, {"reasoning": CARD}, {"content": "2"}, {"content": " hi"}]
    stream = Given([{"choices": [{"delta": part}]} for part in parts])
    said = b"".join(event.raw for event in await said_of(stream, Checking(ALL, lambda *_: None)))
    assert CARD.encode() not in said and b"[card]" in said


@pytest.mark.parametrize("streams", [False, True])
async def test_an_answer_that_its_server_has_compressed_is_refused_because_nobody_can_look_through_it(
    streams: bool,
) -> None:
    stream = Given([])
    stream._left = [gzip.compress(SAID.encode())]
    stream.head = Head(streams, ((b"content-type", b"application/json"), (b"content-encoding", b"gzip")))
    with pytest.raises(ApiError) as raised:
        await said_of(stream, Checking(CHECKS, lambda *_: None))
    assert (raised.value.status, raised.value.code) == (403, "guard_refused")


@pytest.mark.parametrize(
    "raw",
    [
        b'data: {"choices":[{"index":0,"logprob":NaN,"delta":{"content":"%s"}}]}\n\n',
        b'data:  {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}',
        b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n',
    ],
    ids=["beyond JSON", "spaces", "no empty line", "one line end"],
)
async def test_an_event_is_looked_through_however_it_is_written(raw: bytes) -> None:
    stream = Given([])
    stream._left = [raw % SAID.encode()]
    guarded = GuardedStream(stream, Checking(CHECKS, lambda *_: None), (), refused)
    out = b""
    while events := await guarded.said_of(await stream.next()):
        out += b"".join(event.raw for event in events)
    assert SAID.encode() not in out
    assert MASKED.encode() in out


async def test_a_whole_answer_beyond_json_is_looked_through() -> None:
    stream = Given([])
    stream.head = Head(False, ())
    stream._left = [rb'{"logprob":NaN,"choices":[{"message":{"content":"Pay with \u0034111 1111 1111 1111 now."}}]}']
    (event,) = await said_of(stream, Checking(CHECKS, lambda *_: None))
    assert MASKED.encode() in event.raw
