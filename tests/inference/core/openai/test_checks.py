"""The bounds of what clients may ask for: the last value that is taken, and the first that is not."""

import json
from typing import Any

import pytest

from inference.core.openai import errors
from inference.core.openai.checks import MAX_CHOICES, decode_completion, prompts_of


def completion(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "prompt": "x", **fields}).encode()


def refusal(**fields: Any) -> errors.ApiError:
    with pytest.raises(errors.ApiError) as refused:
        decode_completion(completion(**fields))
    return refused.value


def test_choices_count_over_all_prompts() -> None:
    assert decode_completion(completion(prompt=["a", "b"], n=MAX_CHOICES // 2)).n == MAX_CHOICES // 2
    refused = refusal(prompt=["a", "b", "c"], n=MAX_CHOICES // 2)
    assert (refused.param, refused.status) == ("prompt", 400)
    assert f"ask for {3 * MAX_CHOICES // 2} choices, at most {MAX_CHOICES} are given" in refused.message


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("temperature", 0, 2),
        ("logprobs", 0, 20),
        ("frequency_penalty", -2, 2),
        ("presence_penalty", -2, 2),
        ("n", 1, 128),
        ("top_k", -1, 1 << 31),
        ("min_p", 0, 1),
        ("repetition_penalty", 0.01, 10),
        ("min_tokens", 0, 1 << 31),
    ],
)
def test_the_ends_of_a_range_belong_to_it(name: str, low: int, high: int) -> None:
    for value in (low, high):
        assert getattr(decode_completion(completion(**{name: value})), name) == value
    for value in (low - 1, high + 1):
        assert refusal(**{name: value}).param == name


def test_a_limit_that_leaves_no_token_is_refused_by_its_own_name() -> None:
    assert decode_completion(completion(max_tokens=1)).output_limit == 1
    refused = refusal(max_tokens=0)
    assert (refused.param, refused.message) == ("max_tokens", "`max_tokens` is 0, it must be at least 1.")


def test_prompts_are_texts_or_token_ids_and_not_both() -> None:
    assert prompts_of([1, 2], "prompt") == ((1, 2),)
    assert prompts_of([[1], "a"], "prompt") == ((1,), "a")
    for given in ([], [1, "a"], [[]]):
        with pytest.raises(errors.ApiError):
            prompts_of(given, "prompt")


def test_an_unknown_parameter_names_the_server_that_does_not_take_it_where_one_is_known() -> None:
    assert errors.unknown_parameter("tpo_p").message == "Unknown parameter: 'tpo_p'."
    assert "It is none that vLLM is known to take here" in errors.unknown_parameter("tpo_p", "vLLM").message
