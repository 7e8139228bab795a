import random
from itertools import islice

from deploy.local.traffic.burst import table
from deploy.local.traffic.client import Outcome
from deploy.local.traffic.questions import QUESTIONS, TENANTS, Question, questions
from inference.core.question import Message
from inference.core.question import Question as Asked
from inference.core.semantic.bucket import Fuzzy, split


def lot(count: int) -> list[Question]:
    return list(islice(questions(random.Random(1), TENANTS), count))


def test_the_same_seed_gives_the_same_requests() -> None:
    assert lot(50) == lot(50)


def test_the_mixture_has_everything_that_a_page_can_show() -> None:
    many = lot(500)
    assert {one.model for one in many} == {"chat-large", "chat-small"}
    assert {one.key_file for one in many} == set(TENANTS)
    assert {one.stream for one in many} == {True, False}
    assert any(one.leaves_after_s is not None for one in many)
    lengths = sorted(len(one.prompt) for one in many)
    assert lengths[0] < 60
    assert lengths[-1] > 4000


def test_what_is_repeated_can_be_cached() -> None:
    repeated = [one for one in lot(500) if one.prompt in QUESTIONS]
    assert len(repeated) > 5 * len(QUESTIONS)
    assert {one.temperature for one in repeated} == {0.0}


def test_what_is_worded_anew_may_be_answered_for_each_other() -> None:
    """As the gateway judges it: it can be cached, is mostly new to the exact cache, and long enough to be looked up."""
    reworded = [one for one in lot(1000) if not one.temperature and one.prompt not in QUESTIONS]
    assert {one.model for one in reworded} == {"chat-small"}
    assert len({one.prompt for one in reworded}) > 0.8 * len(reworded) > 50
    for one in reworded:
        asked = Asked(operation="chat", temperature=0.0, messages=(Message("user", one.prompt),))
        assert isinstance(split(asked), Fuzzy), one.prompt


def test_what_became_of_a_burst_is_said_by_tier() -> None:
    outcomes = [
        *[Outcome("gateway-key-premium", 200, first_s=number / 100) for number in range(1, 101)],
        Outcome("gateway-key-premium", 0, has_left=True),
        Outcome("gateway-key", 200, first_s=1.5, degraded="short-answers"),
        Outcome("gateway-key", 200, first_s=0.1, problem="the stream ended without [DONE]"),
        Outcome("gateway-key-batch", 503, retry_after="5", degraded="shed"),
    ]
    lines = [line.split() for line in table(outcomes).splitlines()[1:]]
    assert lines == [
        ["premium", "100", "100", "0", "0", "0", "0.95", "s"],
        ["standard", "2", "1", "1", "0", "1", "1.50", "s"],
        ["batch", "1", "0", "1", "1", "0", "none"],
    ]
