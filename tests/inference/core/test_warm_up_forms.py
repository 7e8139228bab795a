"""What a warm-up asks, of a server that reads requests by itself and of another."""

from inference.contract.snapshot import WarmUp
from inference.core.passing.request import Passed
from inference.core.question import Question
from inference.core.warm_up_forms import forms

WARM_UP = WarmUp(1, "Say no.", 3)


def test_a_warm_up_has_a_form_for_each_kind_of_model() -> None:
    text, embedding = forms(WARM_UP, passes=False)
    assert text == Question(operation="text_completion", prompt=("Say no.",), max_tokens=3)
    assert embedding == Question(operation="embeddings", input=("Say no.",))
    passed = [it for it in forms(WARM_UP, passes=True) if isinstance(it, Passed)]
    assert [(it.path, it.texts, it.limits, it.streams) for it in passed] == [
        ("/v1/chat/completions", ("Say no.",), {"max_tokens": 3}, True),
        ("/v1/completions", ("Say no.",), {"max_tokens": 3}, True),
        ("/v1/embeddings", ("Say no.",), {}, False),
    ]
