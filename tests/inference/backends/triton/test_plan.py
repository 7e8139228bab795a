"""Requests for models whose configuration is given, without a server."""

import struct
from typing import Any

import pytest
from tritonclient.grpc import service_pb2 as pb  # type: ignore[import-untyped]

from inference.backends.port import CallInfo
from inference.backends.triton import errors, facts
from inference.backends.triton.facts import Model, Tensor
from inference.backends.triton.plan import Plan
from inference.backends.triton.signatures import SIGNATURES, of_mapping
from inference.backends.triton.values import Request
from inference.contract.tensor_mapping import InputTensor, OutputTensor, TensorMapping
from inference.core.backend_errors import BusyError, FailedError, InvalidError
from inference.core.question import Question
from inference.wires.grpc import CallFailedError, Status, UnavailableError

OLD_ENSEMBLE = Model(
    "ensemble",
    platform="ensemble",
    batched=True,
    decoupled=True,
    inputs={"text_input": Tensor("BYTES"), "max_tokens": Tensor("INT32"), "stream": Tensor("BOOL", optional=True)},
    outputs={"text_output": "BYTES"},
)


def encoded(plan: Plan, **question: Any) -> dict[str, tuple[tuple[int, ...], bytes]]:
    call = CallInfo(3, 50, 1, b"id", "r", 9.0, "hello")
    request = Request(Question(operation="text_completion", prompt=("hello",), **question), call, decoupled=True)
    message = pb.ModelInferRequest.FromString(plan.encode(request, "1", 2))
    assert (message.id, message.model_version, message.parameters["priority"].uint64_param) == ("id", "1", 2)
    pairs = zip(message.inputs, message.raw_input_contents, strict=True)
    return {tensor.name: (tuple(tensor.shape), content) for tensor, content in pairs}


def test_an_older_release_gets_only_the_inputs_that_it_has() -> None:
    signature = facts.recognise(OLD_ENSEMBLE)
    assert signature is SIGNATURES["trtllm_ensemble"]
    assert facts.misfit(OLD_ENSEMBLE, signature) == ""
    plan = Plan(OLD_ENSEMBLE, signature)
    assert encoded(plan, top_p=0.5, stop=("a",)) == {
        "stream": ((1, 1), b"\x01"),
        "text_input": ((1, 1), b"\x05\x00\x00\x00hello"),
        "max_tokens": ((1, 1), struct.pack("<i", 50)),
    }
    handled = plan.capabilities.parameters
    assert (handled.get("top_p"), handled["stop"], handled["max_tokens"]) == (None, "gateway", "translated")


def test_a_required_input_gets_a_value_that_changes_nothing() -> None:
    mapping = TensorMapping(
        (
            InputTensor("text", "BYTES", "prompt", dims=2),
            InputTensor("p", "FP32", "top_p"),
            InputTensor("k", "INT32", "top_k"),
        ),
        (OutputTensor("out", "BYTES", "text"),),
    )
    inputs = {"text": Tensor("BYTES"), "p": Tensor("FP32"), "k": Tensor("INT32", optional=True)}
    model = Model("m", batched=True, inputs=inputs, outputs={"out": "BYTES"})
    assert encoded(Plan(model, of_mapping(mapping))) == {
        "text": ((1, 1, 1), b"\x05\x00\x00\x00hello"),
        "p": ((1, 1), struct.pack("<f", 1.0)),
    }


@pytest.mark.parametrize(
    ("datatype", "value", "asked", "param"),
    [
        ("INT32", "top_k", {"top_k": 1 << 31}, "top_k"),
        ("UINT32", "top_k", {"top_k": -1}, "top_k"),
        ("INT32", "seed", {"seed": 1 << 40}, "seed"),
        ("INT32", "max_tokens", {"max_tokens": 1 << 31}, "max_tokens"),
    ],
)
def test_a_number_that_a_tensor_cannot_hold_is_refused_by_its_name(
    datatype: str, value: str, asked: dict[str, int], param: str
) -> None:
    mapping = TensorMapping(
        (InputTensor("text", "BYTES", "prompt"), InputTensor("n", datatype, value)),  # type: ignore[arg-type]
        (OutputTensor("out", "BYTES", "text"),),
    )
    model = Model("m", inputs={"text": Tensor("BYTES"), "n": Tensor(datatype)}, outputs={"out": "BYTES"})
    with pytest.raises(InvalidError, match=f"`{param}`.*{datatype}") as refused:
        encoded(Plan(model, of_mapping(mapping)), **asked)
    assert refused.value.param == param


def test_the_next_choice_of_the_largest_seed_has_one_too() -> None:
    call = CallInfo(3, 50, 1, b"id", "r", 9.0, "hello")
    asked = Question(operation="text_completion", prompt=("hello",), seed=(1 << 63) - 1, n=2)
    assert [Request(asked, call, decoupled=True, choice=choice).seed for choice in (0, 1)] == [(1 << 63) - 1, 0]


@pytest.mark.parametrize("name", ["input_ids", "other"])
def test_a_model_of_token_ids_is_named_as_one(name: str) -> None:
    reason = facts.unrecognised(Model("tensorrt_llm", inputs={name: Tensor("INT32")}))
    assert ("Name the model in front of it" in reason) == (name == "input_ids")


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("[request id: 7] Exceeds maximum queue size", BusyError),
        ("Request for unknown model: 'm' has no available versions", BusyError),
        ("Model is unavailable due to unhealthy vLLM engine", BusyError),
        (
            "Error generating stream: The decoder prompt (length 9) is longer than the maximum model length of 8",
            InvalidError,
        ),
        ('Traceback (most recent call last):\n  File "/opt/x.py", line 1\nValueError: queue is not ready', FailedError),
        ("the engine failed", FailedError),
    ],
)
def test_words_of_servers_become_the_errors_of_the_port(message: str, kind: type[Exception]) -> None:
    error = errors.of_message(message)
    assert type(error) is kind
    assert "/opt" not in error.message


def test_statuses_become_the_errors_of_the_port() -> None:
    assert type(errors.of_status(UnavailableError("full"))) is BusyError
    failed = errors.of_status(CallFailedError(Status.INVALID_ARGUMENT, "unexpected shape"))
    assert (type(failed), failed.error_type) == (FailedError, "invalid_argument")
