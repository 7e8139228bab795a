"""A stream, a stored stream and a whole answer say the same, whatever the events were."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.core.events import Choice, Event, ToolCallDelta, WholeAnswer, assemble
from inference.core.openai.responses_schema import ResponsesRequest
from inference.core.openai.responses_writer import ResponsesWriter
from inference.core.openai.writers import DONE, ChatWriter, CompletionWriter, Format, Writer

CHOICES = 2
texts = st.text(max_size=5)
indexes = st.integers(0, CHOICES - 1)
tokens = st.tuples(texts, indexes, texts).map(lambda given: Event(given[0], given[1], reasoning=given[2]))
calls = st.tuples(indexes, st.integers(0, 2), texts).map(
    lambda given: Event(choice=given[0], tool_calls=(ToolCallDelta(given[1], "id", "f", given[2]),))
)
events = tokens | calls
answers = st.lists(events, max_size=12).map(
    lambda given: [*given, *(Event(choice=index, finish_reason="stop", tokens=0) for index in range(CHOICES))]
)


def whole_of(given: list[Event]) -> WholeAnswer:
    return WholeAnswer(assemble(given), 3, len(given))


def stream(writer: Writer, given: list[Event]) -> bytes:
    answer = whole_of(given)
    return writer.first(3) + b"".join(map(writer.event, given)) + writer.end(answer)


def data_of(raw: bytes) -> list[dict[str, Any]]:
    lines = [line for line in raw.decode().split("\n") if line.startswith("data: {")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def joined(raw: bytes) -> list[tuple[str, str, dict[int, str], str]]:
    """Text, reasoning, arguments by the call's number, and finish reason of each choice."""
    texts, thoughts, reasons = [""] * CHOICES, [""] * CHOICES, [""] * CHOICES
    arguments: list[dict[int, str]] = [{} for _ in range(CHOICES)]
    for chunk in data_of(raw):
        for choice in chunk["choices"]:
            index, delta = choice["index"], choice.get("delta", {})
            texts[index] += delta.get("content") or choice.get("text") or ""
            thoughts[index] += delta.get("reasoning_content") or ""
            reasons[index] += choice["finish_reason"] or ""
            for call in delta.get("tool_calls", []):
                before = arguments[index].get(call["index"], "")
                arguments[index][call["index"]] = before + call["function"]["arguments"]
    return list(zip(texts, thoughts, arguments, reasons, strict=True))


def said(given: list[Event]) -> list[tuple[str, str, list[str], str]]:
    return [(c.text, c.reasoning, [call.arguments for call in c.tool_calls], c.finish_reason) for c in assemble(given)]


@given(answers, st.booleans())
def test_a_chat_is_the_same_as_a_stream_stored_and_whole(given: list[Event], counts: bool) -> None:
    form = Format(include_usage=counts, continuous_usage=counts, choices=CHOICES)
    answer = whole_of(given)
    live = stream(ChatWriter("x", 1, "m", form), given)
    stored = ChatWriter("x", 1, "m", form).replay(answer)
    for raw in (live, stored):
        assert raw.endswith(DONE)
        parts = [
            (text, thought, [calls[n] for n in sorted(calls)], reason) for text, thought, calls, reason in joined(raw)
        ]
        assert parts == said(given)
        usages = [chunk.get("usage") for chunk in data_of(raw)]
        assert all(usage is not None for usage in usages) is counts
    body = json.loads(ChatWriter("x", 1, "m", form).whole(answer))
    assert [
        (
            choice["message"]["content"] or "",
            choice["message"].get("reasoning_content", ""),
            [call["function"]["arguments"] for call in choice["message"].get("tool_calls", [])],
            choice["finish_reason"],
        )
        for choice in body["choices"]
    ] == said(given)
    assert body["usage"]["total_tokens"] == 3 + len(given)


@given(st.lists(tokens, max_size=8))
def test_a_text_completion_is_the_same_as_a_stream_and_whole(given: list[Event]) -> None:
    given = [*given, *(Event(choice=index, finish_reason="length", tokens=0) for index in range(CHOICES))]
    form = Format(choices=CHOICES)
    live = joined(stream(CompletionWriter("x", 1, "m", form), given))
    body = json.loads(CompletionWriter("x", 1, "m", form).whole(whole_of(given)))
    assert [text for text, *_ in live] == [choice["text"] for choice in body["choices"]]
    assert [text for text, *_ in live] == [choice.text for choice in assemble(given)]


@pytest.mark.parametrize(
    ("answer", "counts"),
    [
        (WholeAnswer((Choice("a", "stop"),), 3, 4), (3, 4, 7, 0, 0)),
        (WholeAnswer((Choice("a", "stop"),), -1, -1), (0, 0, 0, 0, 0)),
        (WholeAnswer((Choice("a", "length"),), 3, 4, 2, 1), (3, 4, 7, 2, 1)),
    ],
)
def test_counts_that_are_not_known_are_zero_and_have_no_details(answer: WholeAnswer, counts: tuple[int, ...]) -> None:
    chat = json.loads(ChatWriter("x", 1, "m", Format()).whole(answer))["usage"]
    assert tuple(chat.values())[:3] == counts[:3]
    assert len(chat) == (5 if answer.cached_tokens >= 0 else 3)
    body = json.loads(ResponsesWriter("x", 1, "m", ResponsesRequest(model="m", input="hi")).whole(answer))
    used = body["usage"]
    said = (used["input_tokens"], used["output_tokens"], used["total_tokens"])
    details = (used["input_tokens_details"]["cached_tokens"], used["output_tokens_details"]["reasoning_tokens"])
    assert said + details == counts
    cut = answer.choices[0].finish_reason == "length"
    assert body["status"] == body["output"][0]["status"] == ("incomplete" if cut else "completed")


@given(st.lists(events.map(lambda event: event._replace(choice=0)), max_size=12))
def test_the_last_event_of_a_response_has_what_its_items_said(given: list[Event]) -> None:
    given = [*given, Event(finish_reason="stop", tokens=0)]
    writer = ResponsesWriter("x", 1, "m", ResponsesRequest(model="m", input="hi"))
    sent = data_of(stream(writer, given))
    assert [event["sequence_number"] for event in sent] == list(range(len(sent)))
    final = sent[-1]["response"]
    done = {event["output_index"]: event["item"] for event in sent if event["type"] == "response.output_item.done"}
    added = [event["output_index"] for event in sent if event["type"] == "response.output_item.added"]
    assert added == list(range(len(final["output"])))
    assert [done[index] for index in added] == final["output"]
    assert len({item["id"] for item in final["output"]}) == len(added)
    choice = assemble(given)[0]
    written = "".join(part["text"] for item in final["output"] if item["type"] == "message" for part in item["content"])
    thoughts = "".join(p["text"] for item in final["output"] if item["type"] == "reasoning" for p in item["content"])
    assert (written, thoughts) == (choice.text, choice.reasoning)
    arguments = [item["arguments"] for item in final["output"] if item["type"] == "function_call"]
    assert sorted(arguments) == sorted(call.arguments for call in choice.tool_calls)
