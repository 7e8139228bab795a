"""Counts the tokens of each input of a list, which servers count together."""

from collections.abc import Sequence
from functools import partial

from inference.contract.snapshot import TOKENIZERS, Model
from inference.core.passing.request import Passed
from inference.core.question import Question
from inference.request.long_body import at_once_or_aside
from inference.tokenizers.model_text import UNCOUNTED, ModelText

_TIMEOUT_S = 5.0
_ALL = 2**31 - 1


def has_own(model: Model) -> bool:
    """Whether it has a tokenizer of its own, and not an estimate or a usual one."""
    return model.tokenizer not in TOKENIZERS


async def count(passed: Passed, numbers: Sequence[int], model: Model, text: ModelText) -> list[int] | None:
    """The tokens of the inputs with these numbers, by the model's own tokenizer; None where it has none. One after the other, so that
    requests that wait for the tokenizer come between.
    """
    if not has_own(model):
        return None
    values = await at_once_or_aside(partial(passed.inputs_at, numbers), len(passed.body))
    counts = list[int]()
    for value in values:
        alone = Question(operation="embeddings", input=(value if isinstance(value, str) else tuple(value),))
        try:
            prepared = await text.prepare(alone, wants_prompt=False, enough=_ALL, timeout_s=_TIMEOUT_S)
        except UNCOUNTED:
            return None
        if prepared.source != "exact":
            return None
        counts.append(prepared.tokens)
    return counts
