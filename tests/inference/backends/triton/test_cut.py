"""Answers of models that take no limit on tokens, cut by the gateway, however they come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2 as pb  # type: ignore[import-untyped]

from inference.backends.port import CallInfo, Event
from inference.backends.triton.answer import Answer
from inference.backends.triton.facts import Model, Tensor
from inference.backends.triton.plan import Plan
from inference.backends.triton.signatures import of_mapping
from inference.backends.triton.values import Request
from inference.contract.tensor_mapping import InputTensor, OutputTensor, TensorMapping
from inference.core.question import Question

WORDS = st.lists(st.text("aé\u732b ", min_size=1, max_size=6), min_size=1, max_size=8)


def a_plan(value: str, *, decoupled: bool = True, counts: bool = True) -> Plan:
    outputs = (OutputTensor("answer", "BYTES", value), OutputTensor("count", "INT32", "output_tokens"))[: 1 + counts]
    mapping = TensorMapping((InputTensor("question", "BYTES", "prompt"),), outputs)
    model = Model(
        "m",
        decoupled=decoupled,
        inputs={"question": Tensor("BYTES")},
        outputs={"answer": "BYTES", "count": "INT32"},
    )
    return Plan(model, of_mapping(mapping))


def read(plan: Plan, limit: int, responses: list[tuple[str, int]], **question: object) -> list[Event]:
    """The events of an answer. Each response has a text and a number of tokens; an empty final one follows where responses are
    many.
    """
    asked = Question(operation="text_completion", prompt=("x",), max_tokens=limit, **question)  # type: ignore[arg-type]
    answer = Answer(plan, Request(asked, CallInfo(1, 99, 1, b"", "", 0.0), plan.model.decoupled))
    events: list[Event] = []
    for text, count in responses:
        message = pb.ModelInferResponse()
        for name, content in (
            ("answer", len(text.encode()).to_bytes(4, "little") + text.encode()),
            ("count", count.to_bytes(4, "little")),
        ):
            if name in plan.outputs:
                message.outputs.add(name=name)
                message.raw_output_contents.append(content)
        answer.read([_framed(message)], events)
        if answer.done:
            assert answer.cut == plan.model.decoupled
            return events
    final = pb.ModelInferResponse()
    final.parameters["triton_final_response"].bool_param = True
    answer.read([_framed(final)], events)
    return events


def _framed(response: pb.ModelInferResponse) -> bytes:
    return bytes(pb.ModelStreamInferResponse(infer_response=response).SerializeToString())


@given(words=WORDS, limit=st.integers(1, 10), value=st.sampled_from(["text", "text_so_far"]), counts=st.booleans())
def test_a_stream_ends_with_its_last_allowed_token(words: list[str], limit: int, value: str, counts: bool) -> None:
    texts = words if value == "text" else ["".join(words[: number + 1]) for number in range(len(words))]
    events = read(a_plan(value, counts=counts), limit, [(text, 1) for text in texts])
    assert "".join(event.text for event in events) == "".join(words[:limit])
    assert [event.finish_reason for event in events if event.finish_reason] == [
        "length" if limit <= len(words) else "stop"
    ]
    assert events[-1].usage is not None
    assert events[-1].usage.output_tokens == min(limit, len(words)) == sum(event.tokens for event in events)


@given(st.integers(1, 12), st.integers(1, 12))
def test_of_a_response_with_more_tokens_than_allowed_its_share_is_passed_on(tokens: int, limit: int) -> None:
    events = read(a_plan("text"), limit, [("abcd" * tokens, tokens)])
    assert "".join(event.text for event in events) == "abcd" * min(tokens, limit)
    assert [event.finish_reason for event in events if event.finish_reason] == ["length" if limit <= tokens else "stop"]


@pytest.mark.parametrize(("limit", "text", "reason"), [(2, "one tw", "length"), (9, "one two three", "stop")])
def test_a_whole_answer_without_counts_has_4_bytes_a_token_and_its_share_is_passed_on(
    limit: int, text: str, reason: str
) -> None:
    events = read(a_plan("text", decoupled=False, counts=False), limit, [("one two three", 0)])
    assert ("".join(event.text for event in events), events[-1].finish_reason) == (text, reason)
