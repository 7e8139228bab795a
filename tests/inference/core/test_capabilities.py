"""What servers of several kinds have in common follows them when they change."""

from typing import Any

import pytest

from inference.contract.stages import OPERATIONS, Operation
from inference.core.capabilities import ANYTHING, Capabilities, Offers
from inference.core.openai.errors import ApiError
from inference.core.question import GENERATION, Message, Question, parameters, without
from inference.core.servers.dialects import offers

ONE = Capabilities("one", {"seed": "forwarded", "n": "forwarded", "stop": "gateway"})
SAME = Capabilities("one", {"seed": "forwarded", "n": "forwarded", "stop": "gateway"})
TWO = Capabilities("two", {"seed": "dropped", "stop": "forwarded"})


def test_alike_servers_have_in_common_what_each_has() -> None:
    offers = Offers()
    assert offers.in_common([]) is ANYTHING
    assert offers.in_common([ONE]) is ONE
    assert offers.in_common([ONE, SAME, ONE]) == ONE


def test_servers_of_two_kinds_do_what_the_stricter_one_does_for_what_all_are_for() -> None:
    offers = Offers()
    both = offers.in_common([ONE, TWO])
    assert both == Capabilities("one or two", {"seed": "dropped", "n": "refused", "stop": "gateway"})
    assert offers.in_common([ONE, TWO]) is both
    three = TWO._replace(operations=GENERATION)
    assert Offers().in_common([ONE, three]).operations == GENERATION
    assert ANYTHING.operations == OPERATIONS


def test_what_is_refused_is_named_as_clients_know_it() -> None:
    for name in ("token_ids", "batch"):
        with pytest.raises(ApiError, match=r"`prompt` as .* is not supported") as refused:
            ONE.check([name], "prompt")
        assert refused.value.param == "prompt"


def test_servers_that_are_alike_share_what_they_do() -> None:
    served = offers("vllm", GENERATION)
    assert (served.server, served.operations, served.parameters) == ("vLLM", GENERATION, ANYTHING.parameters)
    assert offers("vllm", frozenset(GENERATION)) is served


def test_it_follows_servers_that_come_and_go() -> None:
    offers = Offers()
    assert offers.in_common([ONE, TWO]).parameters["n"] == "refused"
    assert offers.in_common([ONE]) is ONE
    three = Capabilities("three", {"seed": "forwarded", "n": "dropped", "stop": "forwarded"})
    assert offers.in_common([ONE, three]).parameters == {"seed": "forwarded", "n": "dropped", "stop": "gateway"}


@pytest.mark.parametrize(
    ("question", "names"),
    [
        (Question(operation="text_completion", prompt=("a",)), []),
        (Question(operation="text_completion", prompt=("a", (1,)), max_tokens=1), ["max_tokens", "token_ids", "batch"]),
        (Question(operation="embeddings", input=((1,), "a")), ["token_ids"]),
        (Question(operation="chat", messages=(Message("tool", "a", tool_call_id="1"),), n=2), ["n", "tool_calls"]),
    ],
)
def test_what_a_question_uses_beyond_plain_text_is_named(question: Question, names: list[str]) -> None:
    assert parameters(question) == names
    assert parameters(without(question, ["n", "max_tokens", "batch"])) == [
        name for name in names if name not in ("n", "max_tokens")
    ]


def test_what_is_known_of_a_question_before_a_server_has_it() -> None:
    def known(operation: Operation, **fields: Any) -> tuple[int, bool, str]:
        question = Question(operation=operation, **fields)
        return question.choices, question.deterministic, question.prompt_param

    assert known("chat", n=3, temperature=0.0) == (3, True, "messages")
    assert known("text_completion", n=2, prompt=("a", "b"), seed=0) == (4, True, "prompt")
    assert known("text_completion", prompt=("a",), temperature=1.0) == (1, False, "prompt")
    assert known("embeddings", input=("a", "b")) == (1, True, "input")
