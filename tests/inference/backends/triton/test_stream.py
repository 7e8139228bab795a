"""Events of responses that came together are given before the failure that follows them."""

from collections import deque
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2 as pb  # type: ignore[import-untyped]

from inference.backends.port import CallInfo, Event
from inference.backends.triton.answer import Answer
from inference.backends.triton.facts import Model, Tensor
from inference.backends.triton.plan import Plan
from inference.backends.triton.signatures import of_mapping
from inference.backends.triton.stream import TritonStream
from inference.backends.triton.values import Request
from inference.contract.tensor_mapping import InputTensor, OutputTensor, TensorMapping
from inference.core.backend_errors import FailedError
from inference.core.question import Question
from inference.wires.grpc import Call


def a_plan() -> Plan:
    inputs = InputTensor("question", "BYTES", "prompt"), InputTensor("limit", "INT32", "max_tokens")
    mapping = TensorMapping(inputs, (OutputTensor("answer", "BYTES", "text"),))
    tensors = {"question": Tensor("BYTES"), "limit": Tensor("INT32")}
    model = Model("m", decoupled=True, inputs=tensors, outputs={"answer": "BYTES"})
    return Plan(model, of_mapping(mapping))


def a_stream(*batches: Sequence[bytes], plan: Plan | None = None, request_id: bytes = b"") -> TritonStream:
    question = Question(operation="text_completion", prompt=("x",))
    left = deque(batches)

    async def read_all() -> Sequence[bytes]:
        return left.popleft() if left else ()

    call: Any = SimpleNamespace(read_all=read_all)
    request = Request(question, CallInfo(1, 99, 1, request_id, "", 0.0), True)
    return TritonStream(cast(Call, call), Answer(plan or a_plan(), request))


def token(text: str, request_id: str = "") -> bytes:
    response = pb.ModelInferResponse(id=request_id)
    response.outputs.add(name="answer")
    response.raw_output_contents.append(len(text.encode()).to_bytes(4, "little") + text.encode())
    return bytes(pb.ModelStreamInferResponse(infer_response=response).SerializeToString())


FAILED = bytes(pb.ModelStreamInferResponse(error_message="the model has failed").SerializeToString())
FINAL = pb.ModelStreamInferResponse()
FINAL.infer_response.parameters["triton_final_response"].bool_param = True


async def test_a_failure_comes_after_the_events_before_it() -> None:
    stream = a_stream((token("one"), token(" two"), FAILED, token("never")))
    assert await stream.next() == [Event("one"), Event(" two")]
    for _ in range(2):
        with pytest.raises(FailedError, match="Triton's model failed"):
            await stream.next()


@pytest.mark.parametrize("raw", [b"\xff", b"\x12\x05abc"])
async def test_bytes_that_are_no_response_are_a_failure_of_the_server(raw: bytes) -> None:
    with pytest.raises(FailedError, match="no response"):
        await a_stream((raw,)).next()


async def test_nothing_is_read_after_the_end() -> None:
    stream = a_stream((token("one"), FINAL.SerializeToString(), token("never")), (token("nor this"),))
    assert [event.text for event in await stream.next()] == ["one", ""]
    assert not await stream.next()


async def test_a_character_may_be_cut_between_tokens() -> None:
    whole = "naïve 😀!".encode()
    raws = [token("a"), *(_raw(whole[at : at + 1]) for at in range(len(whole))), FINAL.SerializeToString()]
    events = await a_stream(raws).next()
    assert "".join(event.text for event in events) == "anaïve 😀!"


def _raw(content: bytes) -> bytes:
    response = pb.ModelInferResponse()
    response.outputs.add(name="answer")
    response.raw_output_contents.append(len(content).to_bytes(4, "little") + content)
    return bytes(pb.ModelStreamInferResponse(infer_response=response).SerializeToString())


@given(st.lists(st.lists(st.text(max_size=3), min_size=1, max_size=4), min_size=2, max_size=5), st.booleans())
async def test_an_answer_is_read_alike_whatever_was_read_before_it(answers: list[list[str]], echoes: bool) -> None:
    plan = a_plan()
    for number, texts in enumerate(answers):
        name = f"id-{number}"
        raws = [*(token(text, name if echoes else "") for text in texts), FINAL.SerializeToString()]
        events = await a_stream(raws, plan=plan, request_id=name.encode()).next()
        assert events == await a_stream(raws).next()


async def test_the_next_answer_begins_without_protobuf(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = a_plan()
    await a_stream((token("one", "id-1"),), plan=plan, request_id=b"id-1").next()
    monkeypatch.setattr(Answer, "_read", None)
    stream = a_stream((token(" other", "id-2"),), plan=plan, request_id=b"id-2")
    assert await stream.next() == [Event(" other")]
