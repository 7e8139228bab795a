"""Tokens are counted as Mistral counts them."""

from importlib.resources import files

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mistral_common.tokens.tokenizers.tekken import Tekkenizer

from inference import tokenizers
from inference.tokenizers import UnknownTokenizerError

theirs = Tekkenizer.from_file(str(files("mistral_common") / "data" / "tekken_240911.json"))
ours = tokenizers.load("tekken")


@given(st.text(max_size=200))
@settings(deadline=None)
def test_the_count_is_that_of_mistrals_own_tokenizer(text: str) -> None:
    text = text.encode("utf-8", "ignore").decode()
    assert ours.count_short(text) == len(theirs.encode(text, bos=False, eos=False))


async def test_a_long_text_is_counted_off_the_loop_and_the_same() -> None:
    text = "Rivers run, and weirs measure them. " * 500
    assert ours.count_short(text) is None
    assert await ours.count(text) == len(theirs.encode(text, bos=False, eos=False))


@given(st.text(max_size=200))
def test_no_token_is_longer_than_it_says(text: str) -> None:
    text = text.encode("utf-8", "ignore").decode()
    assert (ours.count_short(text) or 0) >= len(text) // ours.longest


def test_a_tokenizer_nobody_knows_is_refused_by_name() -> None:
    with pytest.raises(UnknownTokenizerError, match="nobodys"):
        tokenizers.load("nobodys")
