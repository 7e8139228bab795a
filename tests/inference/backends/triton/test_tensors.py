"""What models with the published tensors receive, element by element."""

import json

import pytest

from inference.core.backend_errors import InvalidError
from inference.core.question import ImageUrl, Message, Part, Question, parameters
from tests.support.servers.triton_calls import Connect, decoded

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
EVERYTHING = {
    "temperature": 0.5,
    "top_p": 0.25,
    "top_k": 7,
    "seed": 11,
    "stop": ("X", "yy"),
    "presence_penalty": 0.5,
    "frequency_penalty": -0.5,
}
STRUCTURED = {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}


async def test_vllm_gets_one_object_of_sampling_parameters(connect: Connect) -> None:
    received = await connect("vllm_model").tensors(
        **EVERYTHING,
        min_p=0.5,
        repetition_penalty=1.5,
        min_tokens=2,
        ignore_eos=True,
        max_tokens=9,
        response_format=STRUCTURED,
    )
    sampling = received.pop("sampling_parameters")
    assert sampling[:2] == ["BYTES", [1]]
    given = json.loads(sampling[2][0])
    assert json.loads(given.pop("structured_outputs")) == {"json": SCHEMA}
    assert given == {
        **EVERYTHING,
        "stop": ["X", "yy"],
        "min_p": 0.5,
        "repetition_penalty": 1.5,
        "min_tokens": 2,
        "ignore_eos": True,
        "max_tokens": 9,
    }
    assert received == {
        "text_input": ["BYTES", [1], ["!tensors"]],
        **{
            name: ["BOOL", [1], [True]]
            for name in (
                "stream",
                "exclude_input_in_output",
                "return_finish_reason",
                "return_num_input_tokens",
                "return_num_output_tokens",
            )
        },
    }


@pytest.mark.parametrize("name", ["ensemble", "tensorrt_llm_bls"])
async def test_tensorrt_llm_gets_a_tensor_for_each_parameter(connect: Connect, name: str) -> None:
    received = await connect(name).tensors(
        **EVERYTHING, repetition_penalty=1.5, min_tokens=2, max_tokens=9, bad_words=("z",), response_format=STRUCTURED
    )
    flag = [1] if name == "tensorrt_llm_bls" else [1, 1]  # the BLS takes the batch's dimension of some away
    assert received == {
        "text_input": ["BYTES", [1, 1], ["!tensors"]],
        "max_tokens": ["INT32", [1, 1], [9]],
        "temperature": ["FP32", [1, 1], [0.5]],
        "top_p": ["FP32", [1, 1], [0.25]],
        "top_k": ["INT32", [1, 1], [7]],
        "seed": ["UINT64", [1, 1], [11]],
        "stop_words": ["BYTES", [1, 2], ["X", "yy"]],
        "bad_words": ["BYTES", [1, 1], ["z"]],
        "presence_penalty": ["FP32", [1, 1], [0.5]],
        "frequency_penalty": ["FP32", [1, 1], [-0.5]],
        "repetition_penalty": ["FP32", [1, 1], [1.5]],
        "min_tokens": ["INT32", [1, 1], [2]],
        "guided_decoding_guide_type": ["BYTES", [1, 1], ["json_schema"]],
        "guided_decoding_guide": ["BYTES", [1, 1], ['{"type":"object","properties":{"a":{"type":"integer"}}}']],
        "stream": ["BOOL", [1, 1], [True]],
        "exclude_input_in_output": ["BOOL", [1, 1], [True]],
        "return_num_input_tokens": ["BOOL", flag, [True]],
        "return_num_output_tokens": ["BOOL", flag, [True]],
    }


@pytest.mark.parametrize("name", ["llmapi", "llmapi_decoupled"])
async def test_the_llm_api_gets_tensors_with_its_prefix(connect: Connect, name: str) -> None:
    received = await connect(name).tensors(**EVERYTHING, max_tokens=9)
    prefix = "sampling_param_"
    expected = {
        "text_input": ["BYTES", [1], ["!tensors"]],
        prefix + "max_tokens": ["INT32", [1], [9]],
        prefix + "temperature": ["FP32", [1], [0.5]],
        prefix + "top_p": ["FP32", [1], [0.25]],
        prefix + "top_k": ["INT32", [1], [7]],
        prefix + "seed": ["UINT64", [1], [11]],
        prefix + "stop": ["BYTES", [2], ["X", "yy"]],
        prefix + "presence_penalty": ["FP32", [1], [0.5]],
        prefix + "frequency_penalty": ["FP32", [1], [-0.5]],
        prefix + "exclude_input_from_output": ["BOOL", [1], [True]],
        "return_finish_reason": ["BOOL", [1], [True]],
    }
    if name == "llmapi_decoupled":  # the others refuse to stream
        expected["streaming"] = ["BOOL", [1], [True]]
    assert received == expected


@pytest.mark.parametrize(("name", "prefix"), [("ensemble", ""), ("llmapi", "sampling_param_")])
async def test_tensorrt_llms_defaults_do_not_stand_for_openais(connect: Connect, name: str, prefix: str) -> None:
    """Without top_p the answer would be greedy, and without a seed always the same; a temperature of 0 is refused."""
    first, second = [await connect(name).tensors() for _ in range(2)]
    assert first[prefix + "temperature"][2] == [1]
    assert first[prefix + "top_p"][2] == [1]
    assert first[prefix + "seed"][2] != second[prefix + "seed"][2]
    greedy = await connect(name).tensors(temperature=0)
    assert greedy[prefix + "top_k"][2] == [1]
    assert prefix + "temperature" not in greedy


async def test_choices_of_an_ensemble_are_one_call_and_others_a_call_each(connect: Connect) -> None:
    """With the next seed each, as vLLM itself does it."""
    assert (await connect("ensemble").tensors(n=2))["num_return_sequences"] == ["INT32", [1, 1], [2]]
    vllm = await connect("vllm_model").answer("!tensors", n=2, seed=5)
    sampling = [json.loads(decoded(text)["sampling_parameters"][2][0]) for text in vllm.texts]
    assert [item["seed"] for item in sampling] == [5, 6]
    assert not any("n" in item for item in sampling)


def chat(*urls: str) -> dict[str, object]:
    parts = tuple(Part("image_url", image_url=ImageUrl(url)) for url in urls)
    return {"operation": "chat", "messages": (Message("user", (Part("text", "look"), *parts)),)}


async def test_images_go_in_the_form_that_each_takes(connect: Connect) -> None:
    one, two = "data:image/png;base64,QUJD", "data:image/png;base64,REVG"
    vllm = await connect("vllm_model").tensors(**chat(one, two))
    assert vllm["image"] == ["BYTES", [2], ["QUJD", "REVG"]]
    llmapi = await connect("llmapi").tensors(**chat(one, "https://example.com/x.png"))
    assert llmapi["image_url"] == ["BYTES", [2], [one, "https://example.com/x.png"]]
    bls = await connect("bls_accumulating").tensors(**chat(one))
    assert bls["image_url_input"] == ["BYTES", [1, 1], [one]]
    for name, urls in (("vllm_model", ("https://example.com/x.png",)), ("bls_accumulating", (one, two))):
        with pytest.raises(InvalidError):
            await connect(name).start("!tensors", **chat(*urls))


async def test_capabilities_are_those_of_the_model_as_it_is(connect: Connect) -> None:
    def refused(name: str, **question: object) -> list[str]:
        used = parameters(Question(**{"operation": "chat", **question}))  # type: ignore[arg-type]
        return [item for item in used if served[name].backend.capabilities.parameters.get(item, "refused") == "refused"]

    served = {
        name: connect(name) for name in ("vllm_model", "ensemble", "tensorrt_llm_bls", "bls_accumulating", "llmapi")
    }
    for item in served.values():
        assert not (await item.backend.detect(10)).misfit
    assert refused("vllm_model", logprobs=1, top_logprobs=2, response_format=STRUCTURED, n=2, min_p=0.5) == []
    assert refused("vllm_model", logit_bias={"1": 1.0}) == ["logit_bias"]
    assert refused("ensemble", logprobs=1, min_p=0.5, response_format=STRUCTURED) == ["logprobs", "min_p"]
    assert refused("llmapi", response_format=STRUCTURED, repetition_penalty=1.5) == [
        "response_format",
        "repetition_penalty",
    ]
    assert refused("tensorrt_llm_bls", **chat("data:,")) == ["image_url"]
    assert refused("bls_accumulating", **chat("data:,")) == []
    for name in served:
        assert refused(name, stop=("a",), tools=({},), reasoning_effort="low") == []


@pytest.mark.parametrize("top", [None, 3])
async def test_logprobs_have_openais_shape(connect: Connect, top: int | None) -> None:
    whole = await connect("vllm_model").answer("say: one two", operation="chat", logprobs=1, top_logprobs=top)
    content = [json.loads(event.logprobs)["content"][0] for event in whole.events]
    assert [(item["token"], item["logprob"], bytes(item["bytes"])) for item in content] == [
        ("one", -0.5, b"one"),
        (" two", -0.5, b" two"),
    ]
    ranked = [item["token"] for item in content[0]["top_logprobs"]]
    assert ranked == (["one", "alt1", "alt2"] if top else [])
    whole = await connect("vllm_model").answer("say: one two", logprobs=2)
    first, second = (json.loads(event.logprobs) for event in whole.events)
    assert first == {
        "tokens": ["one"],
        "token_logprobs": [-0.5],
        "top_logprobs": [{"one": -0.5, "alt1": -1.5}],
        "text_offset": [0],
    }
    assert second["text_offset"] == [3]
