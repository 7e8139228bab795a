"""Prompts that begin alike, and who has had them."""

import sys

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from inference.core.passing.request import made
from inference.core.question import Message, Question
from inference.core.routing.need import Need, need_of, parts_of
from inference.core.routing.prefix import BLOCK_TOKENS, PrefixLru, read_prompt

texts = st.binary(max_size=2000)


@given(texts, texts, texts)
def test_prompts_share_the_blocks_of_their_common_beginning(common: bytes, left: bytes, right: bytes) -> None:
    first, second = read_prompt("m", "t", (common, left)), read_prompt("m", "t", (common + right,))
    shared = 0
    for number, (block, other) in enumerate(zip(first.blocks, second.blocks, strict=False)):
        start = 256 * number
        alike = (common + left)[: start + 256] == (common + right)[: start + 256]
        assert (block == other) == alike
        shared += alike
    assert shared >= len(common) // 256


@given(texts.filter(bool))
def test_other_models_and_tenants_share_nothing(text: bytes) -> None:
    prompts = [read_prompt(*names, (text,)) for names in (("m", "t"), ("m", "u"), ("n", "t"))]
    for number in range(len(prompts[0].blocks)):
        assert len({prompt.blocks[number] for prompt in prompts}) == 3
    assert len({prompt.home for prompt in prompts}) == 3


def test_all_gateways_know_a_prompt_by_the_same_home() -> None:
    assert read_prompt("m", "t", (b"x" * 1024, b"y")).home == 0x617CAE1B23BD6363
    assert read_prompt("m", "t", (b"x" * 3000,)).home == 0x617CAE1B23BD6363
    assert read_prompt("m", "t", (b"x" * 1023, b"y")).home != 0x617CAE1B23BD6363


def test_a_replica_has_what_was_sent_to_it_last() -> None:
    lru = PrefixLru(4)
    first, second = (1, 2, 3), (1, 2, 9)
    lru.add(first)
    assert lru.matched(second) == 2
    lru.add(second)
    assert (lru.matched(first), lru.matched(second), len(lru)) == (3, 3, 4)
    lru.add((7,))
    assert lru.matched(first) == 2, "the oldest end of a prompt is dropped first"
    lru.clear()
    assert lru.matched(second) == 0


def test_of_a_replica_two_million_tokens_are_known() -> None:
    lru = PrefixLru()
    lru.add(range(40_000))
    assert len(lru) * BLOCK_TOKENS == 2_000_000


def test_only_the_beginning_of_a_very_long_prompt_counts() -> None:
    assert len(read_prompt("m", "t", (b"x" * 1_000_000,)).blocks) == 131_072 // 64
    assert read_prompt("m", "t", ()) == ((), 0)


def test_a_question_begins_with_its_tools_and_a_prompt_is_compared_where_there_is_a_choice() -> None:
    message = Message("user", "a")
    chat = Question(operation="chat", messages=(message,), tools=({"type": "function"},))
    assert list(parts_of(chat)) == [b'{"type":"function"}', msgspec.json.encode(message)]
    texts = Question(operation="text_completion", prompt=("\u00fc", (1, 2)))
    assert list(parts_of(texts)) == [b"\xc3\xbc", (1).to_bytes(4, sys.byteorder) + (2).to_bytes(4, sys.byteorder)]
    passed = made("/v1/completions", "text_completion", {"model": "m", "prompt": "p"})
    assert list(parts_of(passed)) == [b'"p"']
    assert need_of(chat, "m", "t", 7, 9, compare=False) == Need(7.0, (), 0, 9.0)
    assert need_of(chat, "m", "t", 7, 9, compare=True) == Need(7.0, *read_prompt("m", "t", parts_of(chat)), 9.0)
