"""What a request wants of a replica, as far as its choice depends on that."""

from array import array
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from inference.core.passing.request import Passed
from inference.core.question import Question
from inference.core.routing.prefix import Prompt, read_prompt

_encode = msgspec.json.Encoder().encode


class Need(NamedTuple):
    """The tokens of a request's prompt, what `prefix.Prompt` says of it, and the most output tokens that it may have."""

    prompt_tokens: float
    blocks: tuple[int, ...]
    home: int
    output_tokens: float


ANYTHING = Need(0.0, (), 0, 0.0)
"""Of a call that is no generation, such as a count."""


def need_of(
    query: Question | Passed, model: str, tenant: str, prompt_tokens: int, output_tokens: int, *, compare: bool
) -> Need:
    """With `compare` the prompt is hashed, which is for nothing in a pool of one."""
    prompt = read_prompt(model, tenant, parts_of(query)) if compare else Prompt()
    return Need(float(prompt_tokens), prompt.blocks, prompt.home, float(output_tokens))


def parts_of(question: Question | Passed) -> Iterator[bytes]:
    """The beginning of the prompt in the order in which templates lay it out, so that prompts that begin alike have a common
    beginning.
    """
    if isinstance(question, Passed):
        yield question.head
        return
    for tool in question.tools:
        yield _encode(tool)
    for message in question.messages:
        yield _encode(message)
    for prompt in (*question.prompt, *question.input):
        yield prompt.encode("utf-8", "replace") if isinstance(prompt, str) else array("I", prompt).tobytes()
