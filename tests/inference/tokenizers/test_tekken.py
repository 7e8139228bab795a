"""Tokens are counted as Mistral counts them."""

from functools import cache
from importlib.resources import files

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mistral_common.tokens.tokenizers.tekken import Tekkenizer

from inference.core.text import parts_of
from inference.tokenizers import tekken


@cache
def theirs() -> Tekkenizer:
    """Not read while tests are collected: that takes a second."""
    return Tekkenizer.from_file(str(files("mistral_common") / "data" / "tekken_240911.json"))


@given(st.text(max_size=200))
@settings(deadline=None)
def test_the_count_is_that_of_mistrals_own_tokenizer(text: str) -> None:
    text = text.encode("utf-8", "ignore").decode()
    assert tekken.load().count_short([text]) == len(theirs().encode(text, bos=False, eos=False))


async def test_a_long_text_is_counted_off_the_loop_and_the_same() -> None:
    text = "Rivers run, and weirs measure them. " * 10_000
    assert tekken.load().count_short([text]) is None
    assert await tekken.load().count([text], 10**9) == len(theirs().encode(text, bos=False, eos=False))


async def test_many_short_texts_are_counted_off_the_loop_and_the_same() -> None:
    texts = ["Rivers run."] * 2_048
    assert tekken.load().count_short(texts) is None
    assert await tekken.load().count(texts, 10**9) == 2_048 * len(theirs().encode(texts[0], bos=False, eos=False))
    assert 100 < await tekken.load().count(texts, 100) < 110


async def test_counting_stops_where_it_is_already_too_much() -> None:
    assert 1000 < await tekken.load().count(["word " * 1_000_000], 1000) < 100_000


@pytest.mark.parametrize("text", [" " * 2_000_000, "\t" * 1_000_000 + "x", "a" * 1_000_000, "\n" * 1_000_000])
async def test_a_text_made_to_hurt_is_counted_too(text: str) -> None:
    assert await tekken.load().count([text], 10**9) > 0


@given(st.text(alphabet="ab \n.1", max_size=30).map(lambda text: text * 20_000))
@settings(deadline=None, max_examples=10)
def test_the_parts_make_up_the_text(text: str) -> None:
    assert "".join(parts_of(text)) == text
