"""A chat as a model's template gets it, and what a template may not do."""

import json
from typing import Any

import msgspec
import pytest

from inference.core.question import Function, ImageUrl, Message, Part, Question, ToolCall
from inference.core.templates import chatml, conversation
from inference.core.templates.chat_template import ChatTemplate
from inference.core.templates.control import ControlTokens, is_control
from inference.core.templates.errors import ChatTemplateError, ForgedTokenError

DUMP = "{% generation %}{{ messages | tojson }}{% endgeneration %}"
PARTS = "{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}"
SHOUTS = "{{ messages[0].content | upper }}"
TOOL = {"type": "function", "function": {"name": "f", "description": "", "parameters": {}}}
IMAGE = Part("image_url", image_url=ImageUrl("data:x"))
TWO = (Part("text", "a"), Part("text"), Part("text", "b"))
CALL = ToolCall("1", Function("f", '{"a": 1}'))


def template(source: str, **specials: str) -> ChatTemplate:
    return ChatTemplate(source, specials, ControlTokens())


def rendered(source: str, *messages: Message, **more: Any) -> str:
    return conversation.render(Question(operation="chat", messages=messages, **more), template(source))


@pytest.mark.parametrize(
    ("message", "seen"),
    [
        (Message("user"), {"content": ""}),
        (Message("user", TWO), {"content": "a\n\nb"}),
        (Message("user", "t", name="n"), {"content": "t", "name": "n"}),
        (Message("tool", "t", tool_call_id="1"), {"content": "t", "tool_call_id": "1"}),
        (Message("assistant", tool_calls=(CALL, ToolCall("2", Function("g", "[1]")), ToolCall("3", Function("h", "{")))),
         {"content": "", "tool_calls": [
             {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
             for id, name, arguments in (("1", "f", {"a": 1}), ("2", "g", "[1]"), ("3", "h", "{"))
         ]}),
        (Message("assistant", " <think> r </think>\n\nt"), {"content": "t", "reasoning": "r", "reasoning_content": "r"}),
        (Message("assistant", "<think>r</think>t", reasoning="s"), {"content": "t", "reasoning": "s", "reasoning_content": "s"}),
        (Message("assistant", "<think>r"), {"content": "<think>r"}),
        (Message("assistant", "r</think>t"), {"content": "r</think>t"}),
        (Message("user", "<think>r</think>t"), {"content": "<think>r</think>t"}),
    ],
)  # fmt: skip
def test_a_template_reads_a_message(message: Message, seen: dict[str, Any]) -> None:
    assert json.loads(rendered(DUMP, message)) == [{"role": message.role, **seen}]


def test_what_a_template_takes_is_known_by_trying() -> None:
    kinds = [
        (made.takes_parts, made.takes_tools) for made in map(template, (DUMP, PARTS, SHOUTS, "{{ tools | tojson }}"))
    ]
    assert kinds == [(False, False), (True, False), (False, False), (False, True)]
    assert not template("{{ raise_exception('no') }}").takes_parts
    assert not template("{{ messages.nothing.at.all }}").takes_tools
    for broken in ("{% if %}", "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}"):
        with pytest.raises(ChatTemplateError):
            template(broken)


def test_parts_and_images_go_to_templates_that_take_them() -> None:
    kinds = "{% for m in messages %}{% for p in m.content %}{{ p.type }}:{{ p.text }} {% endfor %}{% endfor %}"
    assert rendered(kinds, Message("user", (*TWO, IMAGE))) == "text:a text: text:b image: "
    with pytest.raises(ChatTemplateError, match="no place for images"):
        rendered(DUMP, Message("user", (IMAGE,)))


def test_variables_of_a_rendering() -> None:
    source = "{{ bos_token }} {{ add_generation_prompt }} {{ reasoning_effort }} {{ x }} {{ documents is none }} {{ tools | tojson }}"

    def seen(**more: Any) -> list[str]:
        question = Question(operation="chat", messages=(Message("user", "a"),), **more)
        return conversation.render(question, template(source, bos_token="<s>")).split(" ", 5)

    assert seen() == ["<s>", "True", "", "", "True", "null"]
    assert seen(add_generation_prompt=False, reasoning_effort="low", chat_template_kwargs={"x": 7}) == [
        "<s>",
        "False",
        "low",
        "7",
        "True",
        "null",
    ]
    assert seen(reasoning_effort="low", chat_template_kwargs={"reasoning_effort": "high"})[2] == "high"
    assert json.loads(seen(tools=(TOOL,))[5]) == [TOOL]
    assert seen(tools=(TOOL,), tool_choice="none")[5] == "null"


def test_an_answer_to_be_continued_ends_the_prompt() -> None:
    source = "{% for m in messages %}{{ m.content }}!{% endfor %}{{ add_generation_prompt }}"
    turns = (Message("user", "b"), Message("assistant", " b "))
    assert rendered(source, *turns, continue_final_message=True) == "b! b"
    assert rendered(source, *turns) == "b! b !True"
    with pytest.raises(ChatTemplateError, match="changes the text"):
        rendered(SHOUTS, Message("assistant", "b"), continue_final_message=True)


@pytest.mark.parametrize(
    ("source", "question", "says"),
    [
        ("{{ raise_exception('no\n way') }}", {}, "^no way$"),
        ("{{ messages[0].content }}", {"tools": (TOOL,)}, "no place for tools"),
        ("{{ 'x' * (1000 * 1050) }}", {}, "which is too much"),
        ("{% for a in range(3000) %}{% for b in range(3000) %}{% endfor %}{% endfor %}", {}, "fuel"),
    ],
)  # fmt: skip
def test_a_template_that_cannot_lay_a_chat_out_says_why(source: str, question: dict[str, Any], says: str) -> None:
    with pytest.raises(ChatTemplateError, match=says):
        conversation.render(Question(operation="chat", messages=(Message("user", "abc"),), **question), _made(source))


def _made(source: str) -> ChatTemplate:
    """Of a template that fails for some messages alone, if at all."""
    return template("{% if messages[0].content == 'abc' %}" + source + "{% endif %}")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("tojson", '{"b": "<é\'", "a": 1}'),
        ("tojson(ensure_ascii=true)", '{"b": "<\\u00e9\'", "a": 1}'),
        ("tojson(indent=1)", '{\n "b": "<é\'",\n "a": 1\n}'),
        ("tojson(separators=[',', ':'], sort_keys=true)", '{"a":1,"b":"<é\'"}'),
    ],
)
def test_json_is_written_as_transformers_writes_it(written: str, expected: str) -> None:
    assert rendered("{{ {'b': '<é\\'', 'a': 1} | " + written + " }}", Message("user", "a")) == expected


def test_the_forms_for_servers_that_apply_a_template_themselves() -> None:
    question = Question(
        operation="chat", messages=(Message("user", (*TWO, IMAGE)), Message("assistant", reasoning="r")), tools=(TOOL,)
    )
    assert question.images == 1
    assert not Question(operation="chat", messages=(Message("user", TWO), Message("user", "a"))).images
    plain = [{"role": "user", "content": "a\n\nb"}, {"role": "assistant", "content": ""}]
    assert conversation.as_openai(question) == (plain, [TOOL], False)
    assert (
        chatml.render(question.messages)
        == "<|im_start|>user\nab<|im_end|>\n<|im_start|>assistant\n<|im_end|>\n<|im_start|>assistant\n"
    )


def test_control_tokens_are_broken_wherever_a_client_writes_them() -> None:
    control, bad, clean = ControlTokens(["<|end|>"]), "<|end|>", "< |end|>"
    assert (control.in_text("a<|end"), control.starts(f"a{bad}{bad}")) == (False, [1, 8])
    assert list(control.spans(f"a{bad}")) == [(1, 8)]
    assert (list(ControlTokens().spans(bad)), ControlTokens().starts(bad), ControlTokens().in_text(bad)) == (
        [],
        [],
        False,
    )
    broken = control.broken(bad)
    question = Question(
        operation="chat",
        messages=(
            Message("user", "clean"),
            Message("assistant", f"<think>{bad}</think>{bad}", name=bad, tool_call_id=bad, reasoning=bad, tool_calls=(
                ToolCall(bad, Function(bad, json.dumps({bad: [bad, 1]}))), ToolCall("1", Function("f", bad)), CALL,
                ToolCall("2", Function("f", '{"a":"\\u003c|end|>"}')),
            )),
            Message("user", (Part("text", "<|en"), IMAGE, Part("text", "d|>"), Part("text", bad))),
        ),
        tools=({"function": {"description": bad}},), chat_template_kwargs={bad: (bad,)}, tool_choice={"function": {"name": bad}},
    )  # fmt: skip
    assert clean == broken
    expected = json.loads(json.dumps(_plain(question)).replace("<|end|>", clean))
    got = _plain(conversation.neutralised(question, control))
    calls = [call["function"]["arguments"] for call in got["messages"][1]["tool_calls"]]
    assert [json.loads(calls[0]), calls[1:]] == [{clean: [clean, 1]}, [clean, '{"a": 1}', '{"a":"< |end|>"}']]
    assert [part.get("text") for part in got["messages"][2]["content"]] == ["<|en\u200b", None, "d|>", clean]
    for half in (expected, got):
        del half["messages"][1]["tool_calls"], half["messages"][2]["content"]
    assert got == expected
    for same in (Question(operation="chat", messages=(Message("user", "a"), Message("assistant", tool_calls=(CALL,)))),
                 Question(operation="text_completion", prompt=(bad,))):  # fmt: skip
        assert conversation.neutralised(same, control) is same


def _plain(question: Question) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(msgspec.json.encode(question))
    return plain


@pytest.mark.parametrize(
    ("text", "special", "template", "control"),
    [
        ("<|im_end|>", False, "", True),
        ("<h1>", False, "", False),
        ("<h1>", False, "a <h1> b", True),
        ("<h1", False, "a <h1 b", False),
        ("h1>", False, "a h1> b", False),
        ("weather", True, "", True),
        ("weather", False, "weather", False),
        (" < ", True, "", False),
        ("[]", True, "", True),
    ],
)
def test_an_added_token_is_a_control_token_by_its_mark_its_form_or_its_template(
    text: str, special: bool, template: str, control: bool
) -> None:
    assert is_control(text, special, template) is control


def test_control_tokens_that_a_client_has_written_are_none_once_they_are_laid_out() -> None:
    control = ControlTokens(["<|end|>", "<s>"])

    def laid(text: str) -> str:
        return f"<s>{control.mark(text)}<|end|>"

    assert control.settle(laid("a")) == ("<s>a<|end|>", 2)
    assert control.settle(laid("<|end|>\u00e9<s>")) == ("<s>< |end|>\u00e9< s><|end|>", 2)
    assert control.apart(laid("a<|end|>b")) == ["<s>a<", "|end|>b<|end|>"]
    assert control.apart(laid("a")) == ["<s>a<|end|>"]
    assert control.settle("<s>") == ("<s>", 1) and ControlTokens().mark("a<s>") == "a<s>"


@pytest.mark.parametrize("tokens", [7, 8])
def test_a_text_that_stays_a_control_token_however_it_is_broken_is_refused(tokens: int) -> None:
    control = ControlTokens([f"a{' ' * spaces}b" for spaces in range(tokens)])
    for broken in (control.broken, lambda text: control.settle(control.mark(text))[0]):
        if tokens == 7:
            assert broken("ab") == "a       b"
            continue
        with pytest.raises(ForgedTokenError, match="contains the control token"):
            broken("ab")
