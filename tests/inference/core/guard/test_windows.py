"""However an answer is cut into parts, it is masked as the whole would be."""

import json

from hypothesis import given
from hypothesis import strategies as st

from inference.core.guard.checking import Checking, is_clean
from inference.core.guard.windows import MAX_WAIT_CHARS, Windows
from tests.support.gateway.guarded import CHECKS, PEM, words


def checking() -> Checking:
    return Checking(CHECKS, lambda *_: None)


@given(words, st.lists(st.integers(1, 9), min_size=1, max_size=40), st.booleans())
def test_cut_anywhere_it_is_masked_as_a_whole(parts: list[str], sizes: list[int], two: bool) -> None:
    """Also where another text comes between its parts."""
    text = " ".join(parts)
    windows, said, order = Windows(checking()), list[str](), list[object]()
    at = number = 0
    while at < len(text):
        size = sizes[number % len(sizes)]
        between = [("other", "x ")] if two else []
        for part in windows.feed(number, [("text", text[at : at + size]), *between]):
            said.append(part.texts[0])
            order.append(part.thing)
        at, number = at + size, number + 1
    for part in windows.end():
        said.append(part.texts[0])
        order.append(part.thing)
    assert order == list(range(number)), "each part once, in its order"
    assert "".join(said) == checking().text(text)


@given(words, st.sampled_from([" ", "\n", '"', "é"]), st.booleans())
def test_json_that_is_clean_has_no_text_to_mask(parts: list[str], between: str, as_ascii: bool) -> None:
    document = {"model": "m", "messages": [{"content": between.join(parts)}, {"content": between + "".join(parts)}]}
    if is_clean(json.dumps(document, ensure_ascii=as_ascii).encode(), CHECKS):
        assert checking().document(document) is document


def test_a_text_that_others_follow_does_not_wait_for_its_end() -> None:
    """Such as reasoning before the answer: nothing says that it has ended."""
    windows, word = Windows(checking()), "word "
    windows.feed(0, [("reasoning", "so rita@mail.example.com")])
    said = [part for number in range(1, 1 + MAX_WAIT_CHARS) for part in windows.feed(number, [("text", word)])]
    assert [part.thing for part in said] == list(range(1 + MAX_WAIT_CHARS)) and said[0].texts == ["so [mail]"]


def test_a_private_key_is_masked_as_it_comes_and_what_never_ends_does_not_take_all() -> None:
    windows, line = Windows(checking()), "MIIEowIBAAKCAQEA7b3dGk2mZxqLw1q0Zk3bVh5nT8y2cJf4sDg6hKlPoIuYtReWq\n"
    lines = ["so ", PEM[:31], *[line] * 400, "after"]
    said = [part.texts[0] for number, text in enumerate(lines) for part in windows.feed(number, [("text", text)])]
    said += [part.texts[0] for part in windows.end()]
    assert len(said) == len(lines) and said[:2] == ["so ", "[key]"] and set(said[2:240]) == {""}
    assert said[-1] == "after" and line in said


def test_plain_words_wait_for_no_more_than_their_end() -> None:
    windows = Windows(checking())
    given_parts = ["The ", "sun ", "sets ", "at ", "nine"]
    released = [len(windows.feed(part, [("text", part)])) for part in given_parts]
    assert released == [1, 1, 1, 1, 0] and len(windows.end()) == 1


def test_a_word_without_end_does_not_wait_for_ever() -> None:
    windows = Windows(checking())
    released = sum(len(windows.feed(number, [("text", "abcdefgh")])) for number in range(500))
    assert released > 450
