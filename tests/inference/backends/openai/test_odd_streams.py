"""Streams that servers write otherwise than most do: they are handed on byte for byte, and read all the same."""

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest

from inference.backends.openai import stream
from inference.backends.port import Event, Usage
from inference.core.backend_errors import FailedError, LostCallError, ServerAnswer
from inference.core.passing.request import Passed, made
from tests.support.servers.calls import CALL, Connect, chat, events_of
from tests.support.servers.saying import Verbatim
from tests.support.servers.standins import MODEL
from tests.support.wait import WITHIN_S

TOKEN = b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n'
END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
COUNTS = b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}\n\n'
DONE = b"data: [DONE]\n\n"
START = (
    b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":3,'
    b'"cache_read_input_tokens":40,"cache_creation_input_tokens":500,"output_tokens":1}}}\n\n'
)
WORD = b'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}\n\n'
STOPS = (
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}\n\n'
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
)
COUNTED = {"stream_options": {"include_usage": True}}


@pytest.fixture
async def verbatim() -> AsyncIterator[Verbatim]:
    async with Verbatim().serving() as server:
        yield server


def message() -> Passed:
    document = {"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "a"}], "stream": True}
    return made("/v1/messages", "chat", document)


def speech() -> Passed:
    return made("/v1/audio/transcriptions", "transcription", {"model": MODEL, "stream": True})


def raw(events: list[Event]) -> bytes:
    return b"".join(event.raw for event in events)


@pytest.mark.parametrize(
    "parts",
    [
        (TOKEN, END.replace(b'"index":0', b'"logprob":-Infinity,"index":0'), COUNTS, DONE),
        (TOKEN, END.replace(b"{}", rb'{"content":"\ud83d"}'), COUNTS, DONE),
        (TOKEN, END.replace(b"{}", b'{"content":"\xff"}'), COUNTS, DONE),
        (TOKEN, END.replace(b"0", b"null"), COUNTS, DONE),
        (b"\xef\xbb\xbf" + END, COUNTS, DONE),
        (TOKEN, END.replace(b"\n\n", b"\r\n\n"), COUNTS.replace(b"\n\n", b"\n\r\n"), DONE),
        (TOKEN, END.replace(b"data: ", b"data:  "), COUNTS.replace(b"data: ", b"data:"), DONE),
        (TOKEN, END, COUNTS[:-2]),
        (TOKEN, COUNTS, END[:-2]),
        (TOKEN, COUNTS, END[:-1]),
    ],
    ids=["no number", "half a pair", "no UTF-8", "no index", "BOM", "line ends", "spaces", "no end", "no end of the last", "one line end"],
)  # fmt: skip
async def test_the_end_of_an_answer_is_read_however_it_is_written(
    verbatim: Verbatim, connect: Connect, parts: tuple[bytes, ...]
) -> None:
    verbatim.parts = [*parts]
    events = await events_of(await connect(verbatim.url).generate(chat(**COUNTED), CALL))
    assert raw(events) == b"".join(parts)
    assert [event.finish_reason for event in events if event.finish_reason] == ["stop"]
    assert [event.usage for event in events if event.usage] == [Usage(5, 2)]


@pytest.mark.parametrize("usage", [b"{}", b'{"total_tokens":7}', b'{"prompt_tokens":1.5,"completion_tokens":-2}'])
async def test_counts_that_only_the_gateway_has_asked_for_are_kept_back_though_they_cannot_be_read(
    verbatim: Verbatim, connect: Connect, usage: bytes
) -> None:
    verbatim.parts = [TOKEN, END, b'data: {"choices":[],"usage":%s}\n\n' % usage, DONE]
    events = await events_of(await connect(verbatim.url).generate(chat(), CALL))
    assert raw(events) == TOKEN + END + DONE


async def test_counts_that_come_late_are_handed_on(
    verbatim: Verbatim, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_END_WITHIN_S", 0.0)
    goes_on = asyncio.Event()
    verbatim.parts = [TOKEN, END, goes_on.wait, COUNTS, DONE]
    answer = await connect(verbatim.url).generate(chat(**COUNTED), CALL)
    events = [*await answer.next()]
    while not any(event.finish_reason for event in events):
        events += await answer.next()
    rest = asyncio.ensure_future(events_of(answer))
    await asyncio.sleep(0)
    goes_on.set()
    assert raw(events) + raw(await rest) == TOKEN + END + COUNTS + DONE


async def test_what_comes_after_done_is_handed_on(verbatim: Verbatim, connect: Connect) -> None:
    goes_on = asyncio.Event()
    verbatim.parts = [TOKEN, END, COUNTS, DONE, goes_on.wait, b": cost 0.2\n\n", b": bye"]
    answer = await connect(verbatim.url).generate(chat(**COUNTED), CALL)
    events = [*await answer.next()]
    while not raw(events).endswith(DONE):
        events += await answer.next()
    goes_on.set()
    assert raw(await events_of(answer)) == b": cost 0.2\n\n: bye"


async def test_a_token_that_comes_with_the_end_counts(verbatim: Verbatim, connect: Connect) -> None:
    verbatim.parts = [TOKEN.replace(b"null", b'"stop"'), DONE]
    events = await events_of(await connect(verbatim.url).generate(chat(), CALL))
    assert sum(event.tokens for event in events) == 1


async def test_counts_of_the_prompt_alone_begin_no_answer(verbatim: Verbatim, connect: Connect) -> None:
    """Anthropic's come first: until the first token another replica may still answer."""
    goes_on = asyncio.Event()
    verbatim.parts = [START, goes_on.wait, WORD, STOPS]
    answer = await connect(verbatim.url).generate(message(), CALL)
    first = asyncio.ensure_future(answer.next())
    await asyncio.wait((first,), timeout=0.05)
    assert not first.done()
    goes_on.set()
    events = [*await first, *await events_of(answer)]
    assert (raw(events), events[0].raw) == (START + WORD + STOPS, START + WORD)
    assert events[0].usage == Usage(543, 1, 40), "what the prompt's cache has, and gets, is part of the prompt"
    assert [event.usage for event in events if event.usage][-1] == Usage(543, 9, 40)


async def test_a_stream_that_is_lost_after_the_counts_of_its_prompt_has_not_begun(
    verbatim: Verbatim, connect: Connect
) -> None:
    async def fail() -> None:
        raise ConnectionResetError

    verbatim.parts = [START, fail]
    with pytest.raises(LostCallError):
        await (await connect(verbatim.url).generate(message(), CALL)).next()


@pytest.mark.parametrize("streams", [True, False])
async def test_a_page_of_a_proxy_is_no_answer_and_reaches_the_client(
    verbatim: Verbatim, connect: Connect, streams: bool
) -> None:
    verbatim.content_type, verbatim.parts = "text/html", [b"<html>it is being mended</html>"]
    with pytest.raises(FailedError) as failed:
        await connect(verbatim.url).generate(chat(stream=streams), CALL)
    assert failed.value.answer == ServerAnswer(
        200, ((b"content-type", b"text/html"),), b"<html>it is being mended</html>"
    )


@pytest.mark.parametrize(
    "data", [b'data: {"model":"llm",%s', b'data: {"model":\ndata: "llm",\ndata: %s', b'data:   {"model" : "llm",%s']
)
async def test_clients_get_their_name_of_the_model_wherever_it_stands(
    verbatim: Verbatim, connect: Connect, data: bytes
) -> None:
    assert MODEL == "llm"
    verbatim.parts = parts = [data % END.removeprefix(b"data: {"), DONE]
    query = made("/v1/chat/completions", "chat", chat().document | {"model": "mine"})
    events = await events_of(await connect(verbatim.url).generate(query, CALL))
    assert raw(events) == b"".join(parts).replace(b'"llm"', b'"mine"')


@pytest.mark.parametrize(
    "before", [b"", TOKEN + b'data: {"error":{"message":"no"}}\n\n'], ids=["first", "after an error"]
)
async def test_what_is_no_answer_is_kept_up_to_a_bound(verbatim: Verbatim, connect: Connect, before: bytes) -> None:
    comment = b": " + b"x" * (1 << 20) + b"\n\n"
    verbatim.parts = [before + b":\n\n", *[comment] * 9, END, DONE]
    with pytest.raises(FailedError, match="more than 8388608 bytes"):
        await events_of(await connect(verbatim.url).generate(chat(), CALL))


async def test_what_a_model_does_before_its_first_token_is_handed_on(verbatim: Verbatim, connect: Connect) -> None:
    """A search may take longer than a first token may."""
    begun = b'data: {"type":"response.created","response":{"usage":null}}\n\ndata: {"type":"response.in_progress"}\n\n'
    searches = b'data: {"type":"response.web_search_call.searching","item_id":"i"}\n\n'
    end = b'data: {"type":"response.completed","response":{"usage":{"input_tokens":5,"output_tokens":2}}}\n\n'
    starts, goes_on = asyncio.Event(), asyncio.Event()
    verbatim.parts = [begun, starts.wait, searches, goes_on.wait, end]
    query = made("/v1/responses", "chat", {"model": MODEL, "input": "a", "stream": True})
    answer = await connect(verbatim.url).generate(query, CALL)
    first = asyncio.ensure_future(answer.next())
    await asyncio.wait((first,), timeout=0.05)
    assert not first.done(), "until it has begun, another replica may answer"
    starts.set()
    async with asyncio.timeout(WITHIN_S):
        assert raw([*await first]) == begun + searches
    goes_on.set()
    assert raw(await events_of(answer)) == end


async def test_the_words_of_speech_are_counted_and_nothing_else_of_its_stream(
    verbatim: Verbatim, connect: Connect
) -> None:
    last = TOKEN.replace(b"{", b'{"usage":{"prompt_tokens":5,"completion_tokens":7},', 1)
    starts = asyncio.Event()
    verbatim.parts = [b": heard\n\n", starts.wait, TOKEN, last, DONE]
    answer = await connect(verbatim.url).generate(speech(), CALL)
    first = asyncio.ensure_future(answer.next())
    await asyncio.wait((first,), timeout=0.05)
    assert not first.done(), "a comment is no word"
    starts.set()
    events = [*await first, *await events_of(answer)]
    assert raw(events) == b": heard\n\n" + TOKEN + last + DONE
    assert sum(event.tokens for event in events) == 2
    assert [event.usage for event in events if event.usage] == [Usage(5, 7)]


async def test_a_server_that_goes_on_for_ever_after_done_is_left(
    verbatim: Verbatim, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_END_WITHIN_S", 0.1)

    async def pause() -> None:
        await asyncio.sleep(0.01)

    verbatim.parts = itertools.chain((TOKEN + END + DONE,), itertools.cycle((pause, b": ping\n\n")))
    model = connect(verbatim.url)
    async with asyncio.timeout(WITHIN_S):
        events = await events_of(await model.generate(chat(), CALL))
    assert raw(events).startswith(TOKEN + END + DONE)
    assert model.link.idle
