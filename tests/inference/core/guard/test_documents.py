"""Which texts of a document are looked through and changed, whose rules hold, and what may be said at once."""

import json
from typing import Any

import pytest

from inference.contract.snapshot_parts import GuardRule
from inference.core.guard import texts
from inference.core.guard.checking import Checking, RefusedTextError, is_clean
from inference.core.guard.patterns import end_of_block, may_have, open_chars
from inference.core.guard.rules import Checks, guards_of
from inference.core.guard.windows import Plain, Windows
from tests.support.gateway.guarded import CHECKS, PEM

ALL = ("card", "key", "mail")
CARD, KEY = "4111 1111 1111 1111", "sk-abcdefghijklmnopqrstuvwx"


def upper(value: Any) -> Any:
    return texts.changed(value, lambda text: text if text.isupper() else text.upper())


@pytest.mark.parametrize(
    ("document", "after"),
    [
        ({"a": "x", "id": "i", "url": "u"}, {"a": "X", "id": "i", "url": "u"}),
        ({"a": ["x", {"b": "y"}, 1, None]}, {"a": ["X", {"b": "Y"}, 1, None]}),
        ({"a": "x", "logprobs": {"content": "x"}}, {"a": "X", "logprobs": None}),
        ({"a": "X", "b": ["Y", {"c": 1}], "logprobs": {"content": "x"}}, None),
        ({"id": "x", "type": ["x"]}, None),
        (7, None),
    ],
)
def test_changed_texts_are_those_that_people_wrote(document: Any, after: Any) -> None:
    assert upper(document) == (document if after is None else after)
    assert (upper(document) is document) == (after is None)


@pytest.mark.parametrize(("depth", "is_read"), [(299, True), (300, False)])
def test_what_is_too_deep_is_no_text(depth: int, is_read: bool) -> None:
    value: Any = ["x"]
    for _ in range(depth - 1):
        value = [value]
    assert list(texts.texts(value)) == ["x"]
    assert (list(texts.texts([[value]])), upper([value]) == [value]) == (["x"] if depth < 299 else [], not is_read)


@pytest.mark.parametrize(
    ("event", "leaves"),
    [
        ({"type": "t", "delta": "a", "text": "b"}, ["a"]),
        ({"choices": [{"index": 3, "text": "a", "finish_reason": "b"}]}, ["a"]),
        ({"choices": [{"delta": {"role": "r", "content": "a", "tool_calls": [{"index": 0, "function": {"arguments": "b"}}]}}]}, ["a", "b"]),
        ({"choices": [{"delta": {"content": "a"}, "logprobs": {"content": [{"token": "a"}]}}]}, ["a"]),
        ({"item": {"text": "a"}, "choices": ["x"]}, []),
    ],
)  # fmt: skip
def test_the_parts_of_texts_that_an_event_brings(event: dict[str, Any], leaves: list[str]) -> None:
    found = texts.parts(event)
    assert [holder[name] for _, holder, name in found] == leaves
    assert len({place for place, _, _ in found}) == len(leaves)


def test_choices_are_told_apart_by_their_index() -> None:
    def place(*choices: dict[str, Any]) -> list[tuple[object, ...]]:
        return [at for at, _, _ in texts.parts({"choices": [{"delta": {"content": "a"}} | each for each in choices]})]

    assert place({"index": 1}) == place({}, {})[1:] != place({"index": 0})


def test_tokens_are_taken_out() -> None:
    event: dict[str, Any] = {
        "choices": [{"logprobs": {"a": 1}, "text": "x", "token_ids": [1]}, 7],
        "prompt_token_ids": [1],
    }
    texts.without_tokens(event)
    assert event == {"choices": [{"logprobs": None, "text": "x", "token_ids": None}, 7], "prompt_token_ids": None}


@pytest.mark.parametrize(
    ("prompt", "has"),
    [([1], True), ([[1], "a"], True), (["a"], False), ([], False), ([[]], False), ("a", False), ([["a"]], False)],
)
def test_a_prompt_in_numbers_is_known(prompt: Any, has: bool) -> None:
    assert [texts.has_token_ids({name: prompt}) for name in ("prompt", "input", "tokens", "other")] == [
        has,
        has,
        has,
        False,
    ]


@pytest.mark.parametrize(
    ("text", "patterns"),
    [
        ("plain text, 12 of it", ()), ("\\u0034", ALL), ("a@b", ("mail",)), ("4" * 12, ()), ("4" * 13, ("card",)),
        ("4 4-" * 7, ("card",)),
        (KEY, ("key",)), (f"w{KEY}", ("key",)), ("a" * 30, ()),
        (f"{'a' * 30} {KEY}", ("key",)), (PEM[:30], ("key",)), ("hf_" + "a" * 11, ()),
    ],
)  # fmt: skip
def test_what_json_may_have_is_known_without_reading_it(text: str, patterns: tuple[str, ...]) -> None:
    assert tuple(each for each in ALL if may_have(text.encode(), (each,))) == patterns
    assert may_have(text.encode(), ALL) == bool(patterns)
    assert is_clean(json.dumps(text.replace("\\u0034", "\u20ac")).encode(), CHECKS) == (not patterns)


@pytest.mark.parametrize(
    ("text", "chars"),
    [("", 0), ("so ", 0), ("so word", 4), ("a.b@c-d", 7), ("so 41 1-", 5), ("so 41 -", 4), ("n 4", 1), ("x é", 1), ("é@é", 3),
     ("so -----BEGIN PRIV", 15), ("so -----BEGIN PRIVATE KEY-----", 27), ("-----BEGIN " + " " * 54, 0), ("-----BEGIN " + " " * 53, 64)],
)  # fmt: skip
def test_the_end_of_a_text_may_go_on(text: str, chars: int) -> None:
    assert open_chars(text) == chars


def test_where_a_private_key_ends() -> None:
    assert (end_of_block(PEM, 5), end_of_block(PEM + "x", 0), end_of_block(PEM[:-1], 0)) == (len(PEM), len(PEM), -1)


def test_the_strictest_rule_counts_and_none_of_a_faulty_one_passes() -> None:
    mask, refuse = (GuardRule(f"a/{name}", "a", "patterns", name, patterns=("card",)) for name in ("mask", "refuse"))  # type: ignore[arg-type]
    short, long = (GuardRule(f"a/{chars}", "a", "length", max_chars=chars, answers=True) for chars in (5, 9))
    judge = GuardRule("a/judge", "a", "moderation", tiers=("t",), requests=False, answers=True)
    guards = guards_of([refuse, mask, long, short, judge], ["b/bad"], ["t", "u"])
    assert sorted(guards) == [("a", "t"), ("a", "u"), ("b", "t"), ("b", "u")]
    assert guards["a", "t"].requests == Checks({"card": refuse}, short, ())
    assert guards["a", "t"].answers == Checks({}, None, (judge,))
    assert (guards["a", "u"].answers.any, guards["a", "u"].mark) == (False, b"")
    assert guards["a", "t"].mark.startswith(b"guard:") and len(guards["a", "t"].mark) == 22
    noted = list[tuple[str, str]]()
    faulty = Checking(guards["b", "t"].requests, lambda *done: noted.append(done))
    with pytest.raises(RefusedTextError, match="'b/bad'"):
        faulty.document({"a": "x"})
    assert faulty.document({"a": ""}) == {"a": ""}
    assert noted == [("b/bad", "refused")]


def test_words_are_said_when_the_next_has_come_and_what_is_found_is_left_to_windows() -> None:
    plain = Plain[str](Checking(CHECKS, lambda *_: None))
    assert not plain.waiting and plain.is_word
    assert plain.feed(["The"], ["The"]) == []
    assert plain.feed([" sun"], [" sun"]) == ["The"]
    assert plain.word(" sets", "sets") == [" sun"]
    assert plain.feed([" a b c"], [" a b c"]) == [" sets"]
    assert plain.waiting and plain.is_word
    assert plain.feed(["1", "2 ", "3"], ["-1", "2 ", "3"]) == [" a b c"]
    assert not plain.is_word
    assert plain.feed(["!"], ["!"]) == ["1", "2 ", "3", "!"]
    assert plain.feed([CARD[:9]], [CARD[:9]]) == []
    assert plain.feed([CARD[9:]], [CARD[9:]]) is None
    assert plain.take() == [CARD[:9]]
    assert not plain.waiting and plain.is_word
    assert plain.feed(["x", "y"], ["x", "y"], is_last=True) == ["x", "y"]
    assert plain.feed(["z"], ["z"]) == []
    assert plain.end() == ["z"]
    assert plain.feed(["k"], [" " + "k" * 13]) == [] and not plain.is_word


def test_a_choice_ends_before_the_others() -> None:
    windows = Windows(Checking(CHECKS, lambda *_: None))
    assert windows.is_idle is True
    assert windows.feed(0, [((0, "text"), "one")]) == windows.feed(1, [((1, "text"), "two")]) == windows.end(1) == []
    assert windows.is_idle is False
    assert [part.thing for part in windows.end(0)] == [0, 1]
    assert windows.is_idle is True
    assert windows.feed(2, [((0, "text"), PEM[:31])]) == []
    parts = windows.feed(3, [((0, "text"), "M" * 64 + "\n")])
    assert [(part.texts, part.is_changed) for part in parts] == [(["[key]"], True), ([""], True)]
    assert windows.is_idle is False


def test_what_nobody_can_look_through_is_refused_and_counted_unless_all_rules_only_report() -> None:
    noted: list[object] = []
    checking = Checking(CHECKS, lambda *done: noted.append(done))
    with pytest.raises(RefusedTextError):
        checking.unreadable(CHECKS)
    assert noted == [("a/all", "refused")]
    reports = GuardRule("a/r", "a", "patterns", "report", patterns=("card",))
    checking.unreadable(CHECKS._replace(patterns={"card": reports}))
    assert len(noted) == 1
