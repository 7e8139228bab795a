"""What is read of answers that are handed on, and how answers for lists are cut and put together."""

import json
from typing import Any

import pytest

from inference.core.events import ABORTED, Usage
from inference.core.passing import embeddings
from inference.core.passing.answers import NOTHING, ChoicesReader, EventsReader, OpaqueReader, Seen, reader_of
from inference.core.passing.blocks import Block

CHAT, RESPONSES, EMBEDDINGS, RANKING = "/v1/chat/completions", "/v1/responses", "/v1/embeddings", "/v1/rerank"
TOKEN, FAILED = Seen(1), Seen(error=True)


def block(said: object, name: str = "") -> Block:
    data = said if isinstance(said, bytes) else json.dumps(said).encode()
    return Block(data, data, name)


def choices(*given: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"choices": list(given), **more}


def delta(text: str, index: int = 0, reason: str | None = None) -> dict[str, Any]:
    return {"index": index, "delta": {"content": text}, "finish_reason": reason}


COUNTS = {"prompt_tokens": 0, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1, "audio_tokens": 3}}
COUNTED = Usage(0, 2, 1, -1, 3)
ANTHROPIC = {"input_tokens": 7, "cache_read_input_tokens": 5}


@pytest.mark.parametrize(
    ("path", "said", "name", "seen"),
    [
        (CHAT, b"", "", NOTHING),
        (CHAT, b"{", "", NOTHING),
        (CHAT, b"", "error", FAILED),
        (CHAT, {"error": {"message": "m"}}, "", FAILED),
        (CHAT, choices({"delta": {"role": "assistant", "content": ""}}), "", NOTHING),
        (CHAT, choices({"text": "a"}, {"index": 1, "text": "b"}), "", Seen(2)),
        (CHAT, choices(delta("", reason="length")), "", Seen(finish_reason="length")),
        (CHAT, choices(delta("a", reason="cancelled")), "", Seen(1, ABORTED)),
        (CHAT, choices(usage=COUNTS), "", Seen(usage=COUNTED, counts_alone=True)),
        (CHAT, choices(delta("a"), usage=COUNTS), "", Seen(1, usage=COUNTED)),
        (CHAT, choices(usage={"total_tokens": 3}), "", Seen(counts_alone=True)),
        (CHAT, choices(usage={"prompt_tokens": 1 << 40, "completion_tokens": -1}), "",
         Seen(usage=Usage(), counts_alone=True)),
        (CHAT, b'{"choices":[{"index":null,"text":"\\ud83d","logprob":NaN,"finish_reason":"stop"}]}', "", Seen(1, "stop")),
        (CHAT, b'{"x":' + b"[" * 100_000, "", NOTHING),
        (CHAT, choices(delta("a", reason="stop"), usage={"prompt_tokens": 1.5, "completion_tokens": []}), "",
         Seen(1, "stop")),
        (CHAT, choices(delta("a", reason="stop"), usage={"prompt_tokens": 7.0, "completion_tokens": "2"}), "",
         Seen(1, "stop", Usage(7, 2))),
        (CHAT, choices(usage={"completion_tokens": 4, "reasoning_tokens": 3}), "",
         Seen(usage=Usage(output_tokens=4, reasoning_tokens=3), counts_alone=True)),
        (CHAT, choices(usage={"output_tokens": 4, "output_tokens_details": {"reasoning_tokens": 2}}), "",
         Seen(usage=Usage(output_tokens=4, reasoning_tokens=2), counts_alone=True)),
        (RESPONSES, b"", "", NOTHING),
        (RESPONSES, b"{", "", NOTHING),
        (RESPONSES, {"type": "response.output_text.delta", "delta": "a"}, "", TOKEN),
        (RESPONSES, {"type": "response.completed", "response": {"usage": ANTHROPIC}}, "",
         Seen(finish_reason="stop", usage=Usage(12, cached_tokens=5))),
        (RESPONSES, {"type": "response.incomplete", "response": {"usage": 1}}, "", Seen(finish_reason="length")),
        (RESPONSES, {"type": "response.created", "response": {"usage": None}}, "", NOTHING),
        (RESPONSES, {"type": "response.in_progress"}, "", NOTHING),
        (RESPONSES, {"type": "response.web_search_call.searching"}, "", Seen(begins=True)),
        (RESPONSES, {"type": "response.failed"}, "", FAILED),
        (RESPONSES, {"type": "x"}, "error", FAILED),
        (RESPONSES, {"type": "message_start", "message": {"usage": ANTHROPIC}}, "", Seen(usage=Usage(12, cached_tokens=5))),
        (RESPONSES, {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}, "", Seen(finish_reason="length")),
        (RESPONSES, {"type": "message_delta", "delta": {"stop_reason": "refusal"}}, "", Seen(finish_reason="refusal")),
        (RESPONSES, {"type": "message_delta", "delta": {}}, "", NOTHING),
        (RESPONSES, {"type": "message_delta", "delta": "x", "usage": {"output_tokens": 2}}, "",
         Seen(usage=Usage(output_tokens=2))),
        (RESPONSES, {"type": "content_block_delta", "delta": {"stop_reason": "stop"}}, "", TOKEN),
        (RANKING, b"{", "", TOKEN),
    ],
)  # fmt: skip
def test_an_event_says_what_it_brings(path: str, said: object, name: str, seen: Seen) -> None:
    assert reader_of(path, 1).see(block(said, name)) == seen


@pytest.mark.parametrize(
    ("path", "said", "seen"),
    [
        (CHAT, b"{", NOTHING),
        (CHAT, choices({"finish_reason": None}, {"finish_reason": "stop"}, usage=COUNTS), Seen(0, "stop", COUNTED)),
        (CHAT, choices({"finish_reason": "abort"}), Seen(0, ABORTED)),
        (CHAT, b'{"l":NaN,"choices":[{"finish_reason":"stop"}]}', Seen(0, "stop")),
        (CHAT, b'{"x":' + b"[" * 100_000, NOTHING),
        (CHAT, choices({"finish_reason": "stop"}, {"finish_reason": "abort"}), Seen(0, ABORTED)),
        (CHAT, b"\n<html>", FAILED),
        (CHAT, b"[" * 100_000, NOTHING),
        (RESPONSES, b"<!doctype html>", FAILED),
        (RESPONSES, b"data: {}", NOTHING),
        (CHAT, {"error": "no"}, FAILED),
        (CHAT, choices({"finish_reason": "stop"}, error="no"), Seen(0, "stop")),
        (RESPONSES, b"{", NOTHING),
        (RESPONSES, {"status": "incomplete", "usage": {"input_tokens": 1}}, Seen(0, "length", Usage(1))),
        (RESPONSES, {"status": "completed", "stop_reason": "tool_use"}, Seen(0, "tool_calls")),
        (RESPONSES, {"status": "queued", "error": None}, NOTHING),
        (RESPONSES, {"status": "failed", "output": []}, FAILED),
        (RESPONSES, {"status": "failed", "output": [{"type": "message"}], "error": {"message": "m"}}, NOTHING),
        (RESPONSES, {"type": "error", "error": {"message": "m"}}, FAILED),
        (RESPONSES, {}, NOTHING),
        (EMBEDDINGS, {"error": {"message": "m"}}, FAILED),
        (RANKING, b"{", NOTHING),
        (RANKING, {"usage": {"total_tokens": 4}}, Seen(usage=Usage(4, 0))),
        (RANKING, {"usage": {"input_tokens": 3, "total_tokens": 4, "output_tokens": 1}}, Seen(usage=Usage(3, 1))),
        (RANKING, {"usage": {}}, NOTHING),
        (EMBEDDINGS, b'{"model":"m","data":[{"embedding":no JSON}],"usage":{"prompt_tokens":2}}', Seen(usage=Usage(2, 0))),
        (EMBEDDINGS, b'{"model":"m","data":[1],"usage":' + b"[" * 100_000, NOTHING),
        (EMBEDDINGS, {"data": [[]], "usage": {"prompt_tokens": 2}}, Seen(usage=Usage(2, 0))),
    ],
)  # fmt: skip
def test_a_whole_answer_says_why_it_ends_and_what_it_took(path: str, said: object, seen: Seen) -> None:
    assert reader_of(path, 1).see_all(block(said).data) == seen


def test_a_stream_is_whole_settled_and_ended_apart() -> None:
    def states(reader: Any, *blocks: object) -> list[tuple[bool, bool, bool]]:
        return [
            reader.see(block(said)) and (reader.whole, reader.settled, reader.ended) for said in (*blocks, b"[DONE]")
        ]

    no, yes, whole, settled = (False,) * 3, (True,) * 3, (True, False, False), (True, True, False)
    two = choices(delta("a"), delta("b", 1))
    first, late, second = choices(delta("", 0, "stop")), choices(delta("c", 0)), choices(delta("", 1, "stop"))
    assert states(ChoicesReader(2), two, first, late, second) == [no, no, no, settled, yes]
    assert states(ChoicesReader(2), first) == [whole, (True, False, True)]
    assert states(ChoicesReader(1)) == [(False, False, True)]
    assert states(EventsReader(), b"", {"type": "ping"}, {"type": "message_stop"}) == [no, no, settled, yes]
    assert states(OpaqueReader()) == [(True, False, False)]


def test_counts_of_the_prompt_stay_when_those_of_the_output_follow() -> None:
    reader = EventsReader()
    reader.see(block({"type": "message_start", "message": {"usage": ANTHROPIC | {"output_tokens": 0}}}))
    seen = reader.see(block({"type": "message_delta", "usage": {"output_tokens": 9}}))
    assert seen.usage == Usage(12, 9, 5)


@pytest.mark.parametrize(
    ("learnt", "then", "tokens"),
    [
        (delta("a"), delta("bc"), 1),
        (delta("a"), delta("\n"), 1),
        (delta("\n"), delta("\n"), 1),
        (delta("a"), delta(""), 0),
        (delta("a"), {"index": 0, "delta": {"content": "b", "more": ""}, "finish_reason": None}, 1),
        ({"text": "a", "x": '"text": "'}, {"text": "", "x": '"text": "'}, 0),
    ],
)
def test_a_chunk_like_the_one_before_counts_as_it_would_alone(
    learnt: dict[str, Any], then: dict[str, Any], tokens: int
) -> None:
    for dump in (json.dumps, lambda value: json.dumps(value, separators=(",", ":"))):
        reader = ChoicesReader(1)
        assert reader.see(block(dump(choices(learnt)).encode())) == TOKEN
        assert reader.see(block(dump(choices(then)).encode())).tokens == tokens


ITEM = '{"object":"embedding","index":%d,"embedding":[%d]}'
LIST = '{"object":"list","data":[ %s , %s\n],"model":"m","usage":{"prompt_tokens":5,"total_tokens":5}}'
WHOLE = LIST % (ITEM % (0, 7), ITEM % (1, 8))


def test_an_answer_for_a_list_is_cut_into_items_that_make_it_again() -> None:
    cut = embeddings.cut(WHOLE.encode())
    assert cut is not None
    assert cut.frame == embeddings.Frame((LIST % ("", "")).replace("  , \n", "").encode(), b" ", b" , ", b"\n")
    assert (len(cut.items), cut.tokens) == (2, 5)
    assert embeddings.joined(cut.frame, cut.items, 5) == WHOLE.encode()
    other = LIST % (ITEM % (0, 8), ITEM % (1, 7))
    assert embeddings.joined(cut.frame, cut.items[::-1], 12) == other.replace(":5", ":12").encode()
    one = embeddings.joined(cut.frame, cut.items[1:], 3).decode()
    assert json.loads(one)["data"] == [{"object": "embedding", "index": 0, "embedding": [8]}]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"data"', '"more"'),
        ('"index":1', '"index":2'),
        ('"index":1', '"index":01'),
        ('"index":1', '"index":1,"index":1'),
        ('"index":1,', ""),
        ("[8]", "8"),
        ("[8]", "[8]}"),
        ('"embedding",', '"embedding","more":1,'),
        ("\n]", ', {"index":2,"embedding":[9]}]'),  # another comma between the items
        ("\n]", "\n}"),
        ('"model":"m"', '"model":"m","more":1'),
        ('"model":"m"', '"model":'),
        ('"total_tokens":5', '"total_tokens":6'),
        ('"total_tokens":5', '"total_tokens":5,"other_tokens":1'),
        (":5", ":-5"),
        (":5", ":5.0"),
        ('{"prompt_tokens":5,"total_tokens":5}', "null"),
        ('"object":"list"', '"object":"\\ud800"'),
        ('"object":"list"', '"object":' + "[" * 100_000),
        ("[8]", "[" * 100_000),
    ],
)  # fmt: skip
def test_an_answer_that_may_say_more_than_its_items_is_not_cut(old: str, new: str) -> None:
    assert old in WHOLE
    assert embeddings.cut(WHOLE.replace(old, new).encode()) is None


def test_counts_that_are_zero_and_vectors_in_base64_are_cut() -> None:
    zero = WHOLE.replace(":5", ":0").replace("[8]", '"AAAA"').replace("5}", '5,"cost":0}')
    cut = embeddings.cut(zero.encode())
    assert cut is not None
    assert cut.tokens == 0


def test_items_are_taken_out_and_put_back_without_being_read() -> None:
    text, start, end = embeddings.without_items(WHOLE.encode()) or (b"", 0, 0)
    assert json.loads(text) == json.loads(WHOLE) | {"data": []}
    assert embeddings.with_items(text, WHOLE.encode()[start:end]) == WHOLE.encode()
    assert embeddings.with_items(b"{}", b"1") == b"{}"
    head = '{"x":"%s","data":[1],"model":"m","usage":{}}'
    assert embeddings.without_items((head % ("x" * 4000)).encode())
    for odd in (
        "{}",
        '{"data":[',
        '] "data":[',
        '{"data":[1]}',
        '{"data":[1]',
        head.replace("m", "]"),
        head % ("x" * 4096),
    ):
        assert embeddings.without_items(odd.encode()) is None
