"""What a Triton is found to be, before any request is sent to it."""

import pytest

from deploy.local.triton import Triton
from inference.backends.port import Detected
from inference.backends.triton.detect import look
from inference.contract.tensor_mapping import InputTensor, TensorMapping
from inference.core.backend_errors import FailedError, UnreachableError
from inference.wires.grpc import Call
from inference.wires.grpc.connection import Connection
from tests.support.servers.triton import requests_of, wait_for_more
from tests.support.servers.triton_calls import MAPPING, Connect

SIGNATURES = {
    "vllm_model": "vllm",
    "ensemble": "trtllm_ensemble",
    "tensorrt_llm_bls": "trtllm_bls",
    "bls_accumulating": "trtllm_bls",
    "llmapi": "trtllm_llmapi",
    "llmapi_deltas": "trtllm_llmapi",
}


async def detected(connect: Connect, name: str, **pool: object) -> Detected:
    return await connect(name, **pool).backend.detect(10)


@pytest.mark.parametrize(("name", "signature"), SIGNATURES.items())
async def test_published_models_are_recognised_by_their_configuration(
    connect: Connect, name: str, signature: str
) -> None:
    found = await detected(connect, name)
    assert (found.kind, found.version, found.signature, found.misfit) == ("triton", "2.51.0", signature, "")
    assert set(SIGNATURES) < set(found.models)


@pytest.mark.parametrize(
    ("name", "pool", "reason"),
    [
        ("foreign", {}, "fits no signature that the gateway knows: choose"),
        ("foreign", {"signature": "vllm"}, "does not fit signature 'vllm'"),
        ("ensemble", {"signature": "vllm"}, "input 'max_tokens', for which signature 'vllm' has no value"),
        ("mapped", {"signature": "weir"}, "does not fit signature 'weir'"),
        ("nothing", {}, "Triton has no model 'nothing': name one of its models in the pool"),
        ("chat_large", {"signature": "weir"}, "no model 'chat_large'"),
    ],
)
async def test_what_does_not_fit_is_said_before_traffic_and_the_replica_stays_down(
    connect: Connect, name: str, pool: dict[str, str], reason: str
) -> None:
    found = await detected(connect, name, **pool)
    assert reason in found.misfit
    with pytest.raises(FailedError) as caught:  # also where nobody has looked before
        await connect(name, **pool).start("say: one")
    assert reason in caught.value.message


async def test_a_mapping_serves_any_other_model(connect: Connect) -> None:
    pool = {"signature": "mapping", "mapping": MAPPING}
    assert (await detected(connect, "mapped", **pool)).misfit == ""
    model = connect("mapped", **pool)
    assert await model.tensors(max_tokens=9, temperature=0.5) == {
        "QUESTION": ["BYTES", [1, 1], ["!tensors"]],
        "LIMIT": ["INT64", [1, 1], [9]],
        "HEAT": ["FP32", [1, 1], [0.5]],
        "MODE": ["INT32", [1, 1], [40]],
    }
    whole = await model.answer("say: ha ha ha ha", max_tokens=3)
    assert (whole.texts, whole.reasons, whole.usage.output_tokens) == (["ha ha ha"], ["length"], 3)
    whole = await model.answer("say: one two three four", stop=("hree",))
    assert (whole.texts, whole.reasons) == (["one two t"], ["stop"])


async def test_an_answer_of_a_model_that_takes_no_limit_is_cut(connect: Connect, standins: Triton) -> None:
    inputs = tuple(
        InputTensor("LIMIT", "INT64", "constant", constant="20") if tensor.name == "LIMIT" else tensor
        for tensor in MAPPING.inputs
    )
    model = connect("mapped", signature="mapping", mapping=TensorMapping(inputs, MAPPING.outputs))
    await model.backend.detect(10)
    assert model.backend.capabilities.parameters["max_tokens"] == "gateway"
    for limit in ({"max_tokens": 3}, {"max_tokens": 3, "stop": ("two three four",)}):
        before = requests_of(standins, "mapped", "cancelled")
        whole = await model.answer("!wait=3 say: one two three four five", **limit)
        assert (whole.texts, whole.reasons, whole.usage.output_tokens) == (["one two three"], ["length"], 3)
        await wait_for_more(standins, "mapped", "cancelled", before)  # a next request at once can crash Triton 2.51
    whole = await model.answer("say: one two three", max_tokens=4)
    assert (whole.texts, whole.reasons, whole.usage.output_tokens) == (["one two three"], ["stop"], 3)


async def test_a_mapping_with_the_wrong_type_is_a_misfit(connect: Connect) -> None:
    wrong = TensorMapping(
        (InputTensor("QUESTION", "BYTES", "prompt"), InputTensor("LIMIT", "INT32", "max_tokens")), MAPPING.outputs
    )
    found = await detected(connect, "mapped", signature="mapping", mapping=wrong)
    assert "input 'LIMIT' of type INT64, and signature 'mapping' INT32" in found.misfit


async def test_finding_it_out_cancels_nothing(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last event comes before the call's end, and users' requests follow at once."""
    cancelled: list[Call] = []
    monkeypatch.setattr(Connection, "cancel", lambda _, call: cancelled.append(call))
    await connect("llmapi_decoupled").backend.detect(10)
    assert not cancelled


async def test_one_that_is_away_is_unreachable_and_not_busy() -> None:
    with pytest.raises(UnreachableError, match="did not describe model"):
        await look("127.0.0.1:1", "chat", "1", 10)
