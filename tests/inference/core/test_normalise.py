"""Which requests are the same question."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from inference.contract.snapshot import Endpoint, Model, Pool, Route
from inference.contract.stages import Operation
from inference.core import normalise
from inference.core.cache_key import after_purges, cache_key, draw
from inference.core.openai import checks
from inference.core.question import Question, encode

MODEL = Model("m", (Route("p"),), max_output_tokens=100)
POOL = Pool("p", "v", "r", "triton-m", "1", (Endpoint("r0", "127.0.0.1:1"),))
texts = st.text(max_size=40)


def chat(body: dict[str, Any]) -> Question:
    return normalise.chat(*checks.decode_chat(json.dumps({"model": "m", **body}).encode()), MODEL.max_output_tokens)


def said(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


@given(texts, st.sampled_from(["", " ", "\n", "\r\n", "\t "]), st.sampled_from(["", " ", "\n\n"]))
def test_white_space_around_a_message_does_not_matter(text: str, before: str, after: str) -> None:
    assert chat(said(before + text + after)) == chat(said(text))


@given(texts, texts)
def test_a_single_part_and_a_string_are_the_same_text(text: str, more: str) -> None:
    parts = [{"type": "text", "text": text}]
    assert chat({"messages": [{"role": "user", "content": parts}]}) == chat(said(text))
    several = [*parts, {"type": "text", "text": more}]
    # Servers join parts in different ways, so they get them as they are.
    assert chat({"messages": [{"role": "user", "content": several}]}) != chat(said(text + more))


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "user": texts,
            "metadata": st.dictionaries(texts, texts, max_size=2),
            "stream": st.booleans(),
            "store": st.booleans(),
            "service_tier": texts,
            "prompt_cache_key": texts,
            "n": st.just(1),
            "tools": st.just([]),
        },
    )
)
def test_what_cannot_change_the_answer_does_not_matter(extra: dict[str, Any]) -> None:
    assert chat({**said("hello"), **extra}) == chat(said("hello"))


@given(st.permutations(["model", "messages", "temperature", "seed", "max_tokens"]))
def test_the_order_of_keys_does_not_matter(order: list[str]) -> None:
    body = {"model": "m", "temperature": 0.5, "seed": 3, "max_tokens": 7, **said("hello")}
    assert chat({key: body[key] for key in order}) == chat(body)


def test_white_space_inside_a_message_is_kept() -> None:
    assert chat(said("if x:\n    y")) != chat(said("if x:\n  y"))


def test_a_seed_says_nothing_where_nothing_is_drawn_and_else_makes_it_deterministic() -> None:
    assert chat({**said("x"), "temperature": 0, "seed": 1}) == chat({**said("x"), "temperature": 0, "seed": 2})
    assert chat({**said("x"), "seed": 1}) != chat({**said("x"), "seed": 2})
    assert chat({**said("x"), "temperature": 0}).deterministic
    assert chat({**said("x"), "seed": 0}).deterministic
    assert not chat(said("x")).deterministic


def test_an_image_s_usual_detail_does_not_matter() -> None:
    def seen(**detail: str) -> Question:
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA", **detail}}
        return chat({"messages": [{"role": "user", "content": [image]}]})

    assert seen() == seen(detail="auto") != seen(detail="low")
    assert seen().images == 1


@pytest.mark.parametrize(
    ("operation", "param"), [("chat", "messages"), ("text_completion", "prompt"), ("embeddings", "input")]
)
def test_a_question_knows_the_parameter_that_holds_its_prompt(operation: Operation, param: str) -> None:
    assert Question(operation=operation).prompt_param == param


def test_a_key_that_is_purged_becomes_another_as_often_as_it_is() -> None:
    key = bytes(32)
    once = after_purges(key, {key.hex(): 1})
    twice = after_purges(key, {key.hex(): 2})
    both = after_purges(key, {key.hex(): 1, once.hex(): 1})
    assert after_purges(key, {"ff": 1}) == key
    assert len({key, once, twice, both}) == 4


def test_a_text_to_complete_keeps_the_white_space_at_its_end() -> None:
    def completion(prompt: str) -> Question:
        body = json.dumps({"model": "m", "prompt": prompt}).encode()
        return normalise.completion(checks.decode_completion(body), 100)

    assert completion("The answer is ") != completion("The answer is")
    assert completion("a\r\nb") == completion("a\nb")


def test_the_key_knows_neither_region_nor_replicas() -> None:
    """What it does know is in test_keys_apart.py."""
    question = chat(said("x"))
    moved = replace(POOL, region="elsewhere", endpoints=(), name="q")
    assert cache_key(question, MODEL, POOL, "alice") == cache_key(question, MODEL, moved, "alice")


def test_equal_questions_draw_the_same_route() -> None:
    drawn = [draw(encode(chat(said(text)))) for text in ("x", " x", "y")]
    assert drawn[0] == drawn[1] != drawn[2]
    assert all(0 <= it < 1 for it in drawn)
