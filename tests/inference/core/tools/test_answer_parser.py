"""Tool calls and reasoning are read out of plain text, however it is cut into tokens."""

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.core.events import Choice, Event, assemble
from inference.core.tools.answer_parser import AnswerParser

WEATHER = ("look", '{"at": "sea [x] {y} \\"z\\"", "n": [1, {"b": null}]}')
TIME = ("now", "{}")


def parse(tool_parser: str, texts: list[str], *, reasoning: str = "", prompt: str = "", finish: str = "stop") -> Choice:
    numbers = itertools.count(1)
    parser = AnswerParser(tool_parser, reasoning, prompt, lambda: f"call_{next(numbers)}")
    events = [*(Event(text) for text in texts), Event(finish_reason=finish, tokens=0)]
    parsed = [event for event in map(parser.parse, events) if event is not None]
    assert sum(event.tokens for event in parsed) == len(texts)
    return assemble(parsed)[0]


def calls(choice: Choice) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in choice.tool_calls]


def cut(text: str, cuts: list[int]) -> list[str]:
    ends = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[begin:end] for begin, end in itertools.pairwise(ends)]


def as_hermes(*pairs: tuple[str, str]) -> str:
    return "".join(f'<tool_call>\n{{"name": "{name}", "arguments": {given}}}\n</tool_call>\n' for name, given in pairs)


def as_mistral(*pairs: tuple[str, str]) -> str:
    return "[TOOL_CALLS][" + ", ".join(f'{{"name": "{name}", "arguments": {given}}}' for name, given in pairs) + "]"


def as_new_mistral(*pairs: tuple[str, str]) -> str:
    return "".join(f"[TOOL_CALLS]{name}[ARGS]{given}" for name, given in pairs)


def as_newest_mistral(*pairs: tuple[str, str]) -> str:
    return "".join(f"[TOOL_CALLS]{name}[CALL_ID]abcdef123[ARGS]{given}" for name, given in pairs)


def as_llama(*pairs: tuple[str, str]) -> str:
    return "; ".join(f'{{"name": "{name}", "parameters": {given}}}' for name, given in pairs)


def as_tagged_llama(*pairs: tuple[str, str]) -> str:
    return "<|python_tag|>" + as_llama(*pairs)


def as_forced(*pairs: tuple[str, str]) -> str:
    return "[" + ", ".join(f'{{"name": "{name}", "parameters": {given}}}' for name, given in pairs) + "]"


WRITERS = [
    ("forced", as_forced),
    ("hermes", as_hermes),
    ("mistral", as_mistral),
    ("mistral", as_new_mistral),
    ("mistral", as_newest_mistral),
    ("llama3_json", as_llama),
    ("llama3_json", as_tagged_llama),
]


@pytest.mark.parametrize(("parser", "write"), WRITERS)
@given(cuts=st.lists(st.integers(0, 10_000), max_size=60))
@settings(deadline=None, max_examples=40)
def test_calls_are_the_same_however_the_text_is_cut(parser: str, write, cuts: list[int]) -> None:  # type: ignore[no-untyped-def]
    for pairs in ([WEATHER], [WEATHER, TIME], [TIME, WEATHER, TIME]):
        choice = parse(parser, cut(write(*pairs), cuts))
        assert calls(choice) == pairs
        assert (choice.text, choice.finish_reason) == ("", "tool_calls")
        assert [call.id for call in choice.tool_calls] == [f"call_{number + 1}" for number in range(len(pairs))]


@pytest.mark.parametrize(("parser", "write"), [entry for entry in WRITERS if entry[0] not in ("llama3_json", "forced")])
@given(cuts=st.lists(st.integers(0, 10_000), max_size=60))
@settings(deadline=None, max_examples=20)
def test_text_before_the_calls_is_text(parser: str, write, cuts: list[int]) -> None:  # type: ignore[no-untyped-def]
    choice = parse(parser, cut("I will look < there [now].\n\n" + write(WEATHER), cuts))
    assert (choice.text, calls(choice)) == ("I will look < there [now].", [WEATHER])


PLAIN = [
    "Hello.",
    " {x} is not a call <tool",
    'Here: {"name": "look"}',
    "a <tool_cal> [TOOL_CALL] </tool_call> \n",
    "",
    '{"answer": 42} and more',
    "{",
    "<|python",
]


@pytest.mark.parametrize("parser", ["hermes", "mistral", "llama3_json"])
@pytest.mark.parametrize("text", PLAIN)
@given(cuts=st.lists(st.integers(0, 10_000), max_size=20))
@settings(deadline=None, max_examples=10)
def test_text_without_calls_stays_as_it_is(parser: str, text: str, cuts: list[int]) -> None:
    choice = parse(parser, cut(text, cuts))
    assert (choice.text, choice.tool_calls, choice.finish_reason) == (text, (), "stop")


@pytest.mark.parametrize(("parser", "write"), WRITERS)
@given(end=st.integers(0, 10_000), cuts=st.lists(st.integers(0, 10_000), max_size=20))
@settings(deadline=None, max_examples=40)
def test_a_call_that_is_cut_short_gives_no_other_call(parser: str, write, end: int, cuts: list[int]) -> None:  # type: ignore[no-untyped-def]
    whole = write(WEATHER)
    choice = parse(parser, cut(whole[: end % len(whole)], cuts), finish="length")
    assert choice.finish_reason == "length"
    assert len(choice.tool_calls) <= 1
    for call in choice.tool_calls:
        assert call.name == "look"
        assert WEATHER[1].startswith(call.arguments)


def test_arguments_are_passed_on_as_they_come() -> None:
    parser = AnswerParser("hermes", "", "", lambda: "call_1")
    shown = [
        parser.parse(Event(text))
        for text in ('<tool_call>{"name": "look", ', '"arguments": {"at"', ': "s', 'ea"}}', "</tool_call>")
    ]
    deltas = [event.tool_calls[-1].arguments if event is not None else None for event in shown]
    assert deltas == [None, '{"at"', ': "s', 'ea"}', None]


@pytest.mark.parametrize(
    "text",
    [
        '{"arguments": {"at": "sea"}, "name": "look"}',
        '{"name": "look", "arguments": "{\\"at\\": \\"sea\\"}"}',
        '{"id": 3, "name": "look", "arguments": {"at": "sea"}}',
    ],
)
def test_a_call_in_another_order_is_read_too(text: str) -> None:
    choice = parse("hermes", [f"<tool_call>{text}</tool_call>"])
    assert [(name, json.loads(given)) for name, given in calls(choice)] == [("look", {"at": "sea"})]


@given(cuts=st.lists(st.integers(0, 10_000), max_size=30))
@settings(deadline=None, max_examples=40)
def test_reasoning_is_told_from_the_answer(cuts: list[int]) -> None:
    choice = parse("", cut("<think>\nHm, </thin a < b.\n</think>\n\nYes. </think>", cuts), reasoning="think")
    assert (choice.reasoning, choice.text) == ("\nHm, </thin a < b.\n", "Yes. </think>")


@pytest.mark.parametrize(
    ("prompt", "text", "reasoning", "answer"),
    [
        ("…<think>\n", "Hm.</think>Yes.", "Hm.", "Yes."),
        ("…<think>\n\n</think>\n\n", "Yes.", "", "Yes."),
        ("", "Yes, <think> is a tag.", "", "Yes, <think> is a tag."),
        ("", "<thin", "", "<thin"),
        ("", "<think>cut sho", "cut sho", ""),
    ],
)
def test_reasoning_may_begin_in_the_prompt_or_be_missing(prompt: str, text: str, reasoning: str, answer: str) -> None:
    for texts in ([text], list(text)):
        choice = parse("", texts, reasoning="think", prompt=prompt)
        assert (choice.reasoning, choice.text) == (reasoning, answer)


@pytest.mark.parametrize("inside", ["", "nothing", "no {object} </tool", "<tool_call>", "[1]"])
def test_what_is_no_call_between_its_marks_is_left_out_and_text_after_it_passes(inside: str) -> None:
    text = f"So <tool_call>{inside}</tool_call>{as_hermes(TIME)}"
    for texts in ([text], list(text)):
        choice = parse("hermes", texts)
        assert (choice.text, calls(choice)) == ("So", [TIME])


def test_calls_follow_reasoning() -> None:
    text = "<think>I should <tool_call>{} look.</think>\n\n" + as_hermes(WEATHER)
    choice = parse("hermes", list(text), reasoning="think")
    assert choice.reasoning == "I should <tool_call>{} look."
    assert (choice.text, calls(choice)) == ("", [WEATHER])


def test_choices_are_kept_apart() -> None:
    parser = AnswerParser("hermes", "", "", lambda: "call_1")
    texts = [list(as_hermes(TIME)), list("Hello there, all of you.")]
    events = [
        Event(text, choice)
        for pair in itertools.zip_longest(*texts)
        for choice, text in enumerate(pair)
        if text is not None
    ]
    events += [Event(finish_reason="stop", choice=0), Event(finish_reason="stop", choice=1)]
    first, second = assemble(event for event in map(parser.parse, events) if event is not None)
    assert (calls(first), first.text) == ([TIME], "")
    assert (second.text, second.finish_reason) == ("Hello there, all of you.", "stop")


def test_of_several_calls_the_first_is_passed_on_where_the_client_wants_no_more() -> None:
    parser = AnswerParser("hermes", "", "", lambda: "call_1", parallel=False)
    events = [*(Event(text) for text in as_hermes(WEATHER, TIME)), Event(finish_reason="stop")]
    choice = assemble(event for event in map(parser.parse, events) if event is not None)[0]
    assert (calls(choice), choice.text, choice.finish_reason) == ([WEATHER], "", "tool_calls")
