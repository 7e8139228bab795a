"""Prompts at which servers have died."""

from inference.core.question import Message, Question
from inference.core.routing.suspects import REMEMBERED_S, Suspects, digest_of

ASKED = Question(operation="chat", messages=(Message("user", "Hello"),), temperature=0.5)
PROMPT = digest_of("m", ASKED)


def test_a_prompt_is_known_by_its_text_and_model_alone() -> None:
    assert digest_of("m", Question(operation="chat", messages=ASKED.messages, seed=3)) == PROMPT
    assert digest_of("n", ASKED) != PROMPT
    assert digest_of("m", Question(operation="chat", messages=(Message("user", "Hello."),))) != PROMPT


def test_deaths_are_counted_for_a_minute_after_the_last() -> None:
    suspects = Suspects()
    suspects.died(PROMPT, 0.0)
    suspects.died(PROMPT, 50.0)
    assert suspects.deaths(PROMPT, 50 + REMEMBERED_S - 1) == 2
    assert suspects.deaths(PROMPT, 50 + REMEMBERED_S) == 0
    assert not suspects


def test_a_prompt_that_was_answered_is_no_suspect() -> None:
    suspects = Suspects()
    suspects.died(PROMPT, 0.0)
    suspects.answered(PROMPT)
    assert suspects.deaths(PROMPT, 1.0) == 0


def test_few_prompts_are_remembered() -> None:
    suspects = Suspects()
    for number in range(3000):
        suspects.died(number.to_bytes(4), 0.0)
    assert sum(suspects.deaths(number.to_bytes(4), 1.0) for number in range(3000)) == 1000
