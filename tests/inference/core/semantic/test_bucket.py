"""The bucket: a request that is changed in anything but its last text is in another; what may not be in one has its reason."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contract.snapshot import CacheRule, Model, Pool
from inference.core.cache_key import cache_key
from inference.core.passing.request import Passed, read
from inference.core.question import Message, Part, Question
from inference.core.semantic.bucket import Fuzzy, Query, bucket, split

TEXT = "how does a weir hold the level of a river"
BASE: dict[str, Any] = {
    "model": "m",
    "temperature": 0,
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hello there"},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": TEXT},
    ],
}
QUESTION = Question(
    operation="chat",
    temperature=0.0,
    messages=tuple(Message(role=it["role"], content=it["content"]) for it in BASE["messages"]),
)
MODEL = Model("m", ())
POOL = Pool("p", "v", "eu", "served", "1")


def sent(body: dict[str, Any], path: str = "/v1/chat/completions") -> Passed:
    return read(path, "chat", json.dumps(body).encode())


def of(query: Query, model: Model = MODEL, pool: Pool = POOL, tenant: str = "t", embedder: bytes = b"e1") -> bytes:
    parts = split(query)
    assert isinstance(parts, Fuzzy), parts
    return bucket(cache_key(parts.rest, model, pool, tenant, None), embedder, tenant)


def last(text: Any) -> dict[str, Any]:
    return BASE | {"messages": [*BASE["messages"][:-1], {"role": "user", "content": text}]}


@pytest.mark.parametrize(
    "text", ["why is the sky blue at noon", [{"type": "text", "text": "why is the sky blue at noon"}]]
)
def test_only_the_last_text_is_left_out(text: Any) -> None:
    assert of(sent(last(text))) == of(sent(BASE))
    asked = msgspec.structs.replace(
        QUESTION, messages=(*QUESTION.messages[:-1], Message("user", "why is the sky blue"))
    )
    assert of(asked) == of(QUESTION) != of(sent(BASE))


def test_what_serves_and_who_asks_are_in_it() -> None:
    others = {
        of(sent(BASE)),
        of(sent(BASE), tenant="u"),
        of(sent(BASE), embedder=b"e2"),
        of(sent(BASE), msgspec.structs.replace(MODEL, prompt_version="2")),
        of(sent(BASE), pool=msgspec.structs.replace(POOL, model_version="2")),
        of(sent(BASE), pool=msgspec.structs.replace(POOL, variant="w")),
        of(sent(BASE), msgspec.structs.replace(MODEL, cache=CacheRule(purges=1))),
    }
    assert len(others) == 7


JSON = st.one_of(
    st.booleans(),
    st.integers(-9, 9),
    st.floats(0.5, 2),
    st.text(max_size=8),
    st.lists(st.integers(0, 9), max_size=3),
)
NAMES = st.sampled_from(
    ("top_p", "stop", "tools", "tool_choice", "response_format", "max_tokens", "seed_of", "temperature", "x_unknown")
)


@given(NAMES, JSON)
def test_another_parameter_is_another_bucket(name: str, value: Any) -> None:
    if BASE.get(name) == value:
        return
    assert of(sent(BASE | {name: value})) != of(sent(BASE))


@given(st.integers(0, 2), st.sampled_from(("role", "content", "name")), st.text(min_size=1, max_size=12))
def test_another_earlier_turn_is_another_bucket(turn: int, field: str, value: str) -> None:
    messages = [dict(it) for it in BASE["messages"]]
    if messages[turn].get(field, "").strip() == value.strip():
        return
    messages[turn][field] = value
    assert of(sent(BASE | {"messages": messages})) != of(sent(BASE))
    assert of(sent(BASE | {"messages": messages[1:]})) != of(sent(BASE))


def test_bodies_that_cannot_be_hashed_in_parts_share_no_bucket() -> None:
    def with_half_a_pair(system: str) -> bytes:
        return of(sent(BASE | {"messages": [{"role": "system", "content": system}, BASE["messages"][-1]]}))

    assert with_half_a_pair("\ud800 a") != with_half_a_pair("\ud800 b")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (last(""), "empty"),
        (last("hi you"), "few_words"),
        (last("word " * 600), "long"),
        (last("what does this mean for the river"), "deixis"),
        (last("please continue with the long story"), "deixis"),
        (last("what is the latest price of copper"), "time"),
        (last("what is in my shopping basket"), "time"),
        (last("what is the ca\u200bpital of France"), "characters"),
        (last([{"type": "text", "text": TEXT}, {"type": "image_url", "image_url": {"url": "data:,"}}]), "images"),
        (BASE | {"messages": [*BASE["messages"], {"role": "tool", "tool_call_id": "a", "content": TEXT}]}, "last_message"),
        (BASE | {"messages": []}, "last_message"),
        (BASE | {"n": 2}, "choices"),
        (BASE | {"logprobs": True}, "choices"),
    ],
)  # fmt: skip
def test_what_may_not_be_answered_for_another_has_its_reason(body: dict[str, Any], reason: str) -> None:
    assert split(sent(body)) == reason
    allowed = split(sent(body), timely=True)
    assert (allowed.text if isinstance(allowed, Fuzzy) else allowed) == (
        body["messages"][-1]["content"] if reason == "time" else reason
    )


def test_a_text_may_have_2048_bytes() -> None:
    text = "how does a weir hold é ".ljust(2047, "x")
    assert isinstance(split(sent(last(text))), Fuzzy)
    assert split(sent(last(text + "x"))) == "long"


def test_other_operations_are_not_for_it() -> None:
    assert split(sent(BASE, "/v1/messages")) == "operation"
    assert split(Question(operation="embeddings", input=(TEXT,))) == "operation"


def test_a_question_of_which_no_text_is_the_last_has_its_reason() -> None:
    *before, ends = QUESTION.messages
    for change, reason in (
        ({"n": 2}, "choices"),
        ({"logprobs": 1}, "choices"),
        ({"messages": ()}, "last_message"),
        ({"messages": tuple(before)}, "last_message"),
        ({"messages": (msgspec.structs.replace(ends, content=(Part("text", TEXT),)),)}, "images"),
    ):
        assert split(msgspec.structs.replace(QUESTION, **change)) == reason
