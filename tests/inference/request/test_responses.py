"""/v1/responses, as the official client reads it."""

from pathlib import Path
from typing import Any

import openai
import pytest

from inference.core.backend_errors import FailedError
from inference.core.events import Event, ToolCallDelta
from tests.support.gateway.scripted import USAGE, ScriptedBackend, serve

TOOL: dict[str, Any] = {"type": "function", "name": "weather", "parameters": {"type": "object"}, "strict": True}
FORM: dict[str, Any] = {"type": "json_schema", "name": "s", "schema": {"type": "object"}, "strict": True}
TEXT = (
    Event(reasoning="hm"),
    Event("Hel"),
    Event("lo"),
    Event(finish_reason="stop", tokens=0),
    Event(usage=USAGE, tokens=0),
)
CALLS = (
    Event(tool_calls=(ToolCallDelta(0, "call-1", "weather", '{"city"'),)),
    Event(tool_calls=(ToolCallDelta(1, "call-2", "weather", "{}"),)),
    Event(tool_calls=(ToolCallDelta(0, arguments=': "Ulm"}'),)),
    Event(finish_reason="tool_calls", usage=USAGE, tokens=0),
)


async def streamed(client: Any, **options: Any) -> list[Any]:
    return [event async for event in await client.responses.create(model="m", stream=True, **options)]


async def test_it_answers_with_text_reasoning_and_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = ScriptedBackend(TEXT)
    async with serve(script, tmp_path, monkeypatch) as client:
        response = await client.responses.create(
            model="m",
            input="hello",
            instructions="be brief",
            max_output_tokens=9,
            reasoning={"effort": "low"},
            text={"format": FORM},  # type: ignore[typeddict-item]
            metadata={"team": "a"},
        )
    assert (response.output_text, response.status, response.model) == ("Hello", "completed", "m")
    assert [item.type for item in response.output] == ["reasoning", "message"]
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.total_tokens) == (11, 7, 18)
    assert response.usage.input_tokens_details.cached_tokens == 3
    assert response.usage.output_tokens_details.reasoning_tokens == 2
    assert (response.instructions, response.metadata, response.max_output_tokens) == ("be brief", {"team": "a"}, 9)
    question = script.questions[0]
    assert [(message.role, message.content) for message in question.messages] == [
        ("system", "be brief"),
        ("user", "hello"),
    ]
    assert (question.max_tokens, question.reasoning_effort) == (9, "low")
    assert question.response_format == {
        "type": "json_schema",
        "json_schema": {k: v for k, v in FORM.items() if k != "type"},
    }


async def test_its_events_come_in_the_clients_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(ScriptedBackend(TEXT), tmp_path, monkeypatch) as client:
        events = await streamed(client, input="hello")
    part = ["response.content_part.done", "response.output_item.done"]
    assert [event.type for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.reasoning_text.delta",
        "response.reasoning_text.done",
        *part,
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        *part,
        "response.completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "Hello"
    response = events[-1].response
    assert (response.output_text, response.usage.output_tokens) == ("Hello", 7)
    assert response.id == events[0].response.id
    assert events[0].response.status == "in_progress"
    done = [event.item for event in events if event.type == "response.output_item.done"]
    assert [item.to_dict() for item in done] == [item.to_dict() for item in response.output]


async def test_its_stream_helper_puts_tool_calls_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(ScriptedBackend(CALLS), tmp_path, monkeypatch) as client:
        async with client.responses.stream(model="m", input="weather?", tools=[TOOL]) as stream:  # type: ignore[list-item]
            async for _ in stream:
                pass
            response = await stream.get_final_response()
        whole = await client.responses.create(model="m", input="weather?", tools=[TOOL])  # type: ignore[list-item]
    for output in (response.output, whole.output):
        calls = [(item.call_id, item.name, item.arguments) for item in output if item.type == "function_call"]
        assert calls == [("call-1", "weather", '{"city": "Ulm"}'), ("call-2", "weather", "{}")]


async def test_earlier_turns_come_with_each_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = ScriptedBackend(CALLS, TEXT)
    async with serve(script, tmp_path, monkeypatch) as client:
        first = await client.responses.create(model="m", input="weather?", tools=[TOOL])  # type: ignore[list-item]
        items: list[Any] = [{"role": "user", "content": "weather?"}, *first.output]
        items += [{"type": "function_call_output", "call_id": call, "output": "rain"} for call in ("call-1", "call-2")]
        choice: Any = {"type": "function", "name": "weather"}
        second = await client.responses.create(model="m", input=items, tools=[TOOL], tool_choice=choice)  # type: ignore[list-item]
        items += [*second.output, {"role": "user", "content": [{"type": "input_text", "text": "thanks"}]}]
        await client.responses.create(model="m", input=items)
    messages = script.questions[1].messages
    assert [message.role for message in messages] == ["user", "assistant", "tool", "tool"]
    assert [call.function.arguments for call in messages[1].tool_calls] == ['{"city": "Ulm"}', "{}"]
    assert [message.tool_call_id for message in messages[2:]] == ["call-1", "call-2"]
    assert script.questions[1].tool_choice == {"type": "function", "function": {"name": "weather"}}
    last = script.questions[2].messages[-2]
    assert (last.role, last.content, last.reasoning) == ("assistant", "Hello", "hm")


async def test_an_answer_that_was_cut_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(
        ScriptedBackend((Event("He", finish_reason="length", usage=USAGE),)), tmp_path, monkeypatch
    ) as client:
        whole = await client.responses.create(model="m", input="hello")
        events = await streamed(client, input="hello")
    assert events[-1].type == "response.incomplete"
    for response in (whole, events[-1].response):
        assert response.status == "incomplete"
        assert response.incomplete_details is not None
        assert response.incomplete_details.reason == "max_output_tokens"


async def test_a_failure_in_its_stream_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(ScriptedBackend((Event("He"), FailedError("boom", "500"))), tmp_path, monkeypatch) as client:
        with pytest.raises(openai.APIError) as caught:
            await streamed(client, input="hello")
    assert caught.value.code == "model_error"


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"previous_response_id": "resp_1"}, "previous_response_id"),
    ({"tools": [TOOL | {"name": "a b"}]}, "tools[0].name"),
    ({"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]}, "input[0].content[0]"),
]


async def test_what_it_does_not_keep_is_named_in_a_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(ScriptedBackend(TEXT), tmp_path, monkeypatch) as client:
        create = client.responses.with_raw_response.create
        raw = await create(model="m", input="hello", store=True, include=["reasoning.encrypted_content"])
        plain = await create(model="m", input="hello", store=False)
    assert raw.headers["x-weir-dropped"] == "store, include[reasoning.encrypted_content]"
    assert "x-weir-dropped" not in plain.headers
    assert raw.parse().to_dict()["store"] is False
