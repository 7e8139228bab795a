"""The verifier: what it lets pass, and that whatever it does not know is a difference."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.core.semantic import words
from inference.core.semantic.features import WORD_BYTES, features
from inference.core.semantic.verify import DIFFERENCES, difference

KEY = b"bucket"


def verdict(text: str, other: str) -> str:
    first, second = features(text, KEY), features(other, KEY)
    assert difference(first, second) == difference(second, first)
    return difference(first, second)


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("What is the capital of France?", "what is the capital of France"),
        ("What's the capital of France?", "What is France's capital?"),
        ("How do I reset my router?", "how to reset my router"),
        ("Hi, could you tell me how I can reset a router, please?", "Tell me how I can reset the router"),
        ("The limit is 1,000 requests, what happens after?", "The limit is 1000 requests; what happens after?"),
        ("Why doesn't the job start?", "Why does not the job start"),
    ],
)  # fmt: skip
def test_the_same_words_pass(text: str, other: str) -> None:
    assert verdict(text, other) == ""


@pytest.mark.parametrize(
    ("text", "other", "reason"),
    [
        ("what is 5 km in miles", "what is 6 km in miles", "number"),
        ("what is 5 km in miles", "what is 5 kg in miles", "number"),
        ("what happened on 2024-05-01", "what happened on 2024-01-05", "number"),
        ("is it safe to eat -5 and 5", "is it safe to eat 5 and 5", "number"),
        ("how to turn dark mode on", "how to turn dark mode off", "opposite"),
        ("does the plan include support", "does the plan not include support", "negation"),
        ("why can the user log in", "why can't the user log in", "negation"),
        ("which is more than the limit", "which is less than the limit", "comparative"),
        ("flights from Paris to Rome", "flights from Rome to Paris", "name"),
        ("convert euros to dollars for what", "convert dollars to euros for what", "order"),
        ("does a dog bite a man", "does a man bite a dog", "order"),
        ("what did US do", "what did us do", "name"),
        ("who leads Acme Corp", "who leads Apex Corp", "name"),
        ("what does `a + b` do", "what does `a - b` do", "code"),
        ("what does max_size do", "what does min_size do", "code"),
        ("what is at https://a.example/x", "what is at https://a.example/y", "url"),
        ('translate "good day" for the guest', 'translate "good night" for the guest', "quote"),
        ("what is x < y", "what is x > y", "sign"),
        ("was ist ein Wehr", "what is a weir", "language"),
        ("how to freeze the pipe", "how to thaw the pipe", "word"),
        ("what is a little salt", "what is little salt", "word"),
        ("how to list the file", "how to list the files", "word"),
    ],
)  # fmt: skip
def test_a_difference_is_named(text: str, other: str, reason: str) -> None:
    assert verdict(text, other) == reason


@pytest.mark.parametrize("pair", words.OPPOSITES, ids="-".join)
def test_no_listed_opposite_passes(pair: tuple[str, str]) -> None:
    for frame in (
        "how do I {} the service for a team",
        "{} is what the users want",
        "please {} it, thanks",
        "Licht {}",
    ):
        assert verdict(frame.format(pair[0]), frame.format(pair[1])) not in ("", "word")


@given(st.text(max_size=60), st.text(max_size=60))
def test_every_text_has_features_that_are_its_own(text: str, other: str) -> None:
    assert len(features(text, KEY)) % WORD_BYTES == 0
    assert difference(features(text, KEY), features(text, KEY)) == ""
    assert verdict(text, other) in ("", *DIFFERENCES)


@given(
    st.lists(st.sampled_from(["alpha", "beta", "7", "Rome", "not", "up", "`x`", "from"]), min_size=1, max_size=6),
    st.data(),
)
def test_a_word_more_a_word_less_and_another_word_are_differences(given_words: list[str], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(given_words) - 1))
    more, less, another = [*given_words, "gamma"], given_words[:at] + given_words[at + 1 :], list(given_words)
    another[at] = "gamma"
    text = "which " + " ".join(given_words)
    for other in (more, less, another):
        assert verdict(text, "which " + " ".join(other)) != ""


def test_hashes_of_two_buckets_have_nothing_in_common() -> None:
    text = "what is the capital of France"
    assert difference(features(text, b"one"), features(text, b"two")) != ""


@pytest.mark.parametrize("broken", [b"", b"\x01", b"\x00" * (WORD_BYTES + 1)])
def test_features_of_another_layout_are_a_difference(broken: bytes) -> None:
    assert difference(features("what is this", KEY), broken) == "language"
