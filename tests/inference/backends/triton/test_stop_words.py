"""Cutting a text at its stop words."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from inference.backends.triton.stop_words import StopWords

TEXTS = st.text("abc ", max_size=30)
WORDS = st.lists(st.text("abc ", min_size=1, max_size=4), max_size=3).map(tuple)


def passed(words: tuple[str, ...], parts: list[str]) -> tuple[str, bool]:
    stop = StopWords(words)
    out = [stop.add(part, last=number == len(parts) - 1) for number, part in enumerate(parts)]
    return "".join(out), stop.cut


@given(TEXTS, WORDS, st.lists(st.integers(0, 30), max_size=5))
def test_however_a_text_is_divided_the_same_is_passed_on(text: str, words: tuple[str, ...], cuts: list[int]) -> None:
    at = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    parts = [text[start:end] for start, end in pairwise(at)]
    assert passed(words, parts) == passed(words, [text])


@given(TEXTS, WORDS)
def test_what_is_passed_on_has_no_stop_word_and_nothing_else_is_lost(text: str, words: tuple[str, ...]) -> None:
    out, cut = passed(words, [text])
    assert text.startswith(out)
    assert not any(word in out for word in words)
    assert cut == any(word in text for word in words)
    assert cut or out == text


def test_text_is_kept_back_only_while_it_may_become_a_stop_word() -> None:
    stop = StopWords(("END", "."))
    assert [stop.add("one E"), stop.add("N"), stop.add("d two")] == ["one ", "", "ENd two"]
    assert (stop.add("three. four"), stop.cut, stop.add("five")) == ("three", True, "")
