"""What a kind of server can do with each parameter of a question."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

from inference.contract.stages import OPERATIONS, Operation
from inference.core import question as questions
from inference.core.openai import errors
from inference.core.question import Question

Handling = Literal["forwarded", "translated", "gateway", "dropped", "refused"]
"""`gateway`: the gateway does it itself. `dropped`: left out, and named in the answer's `x-weir-dropped`."""
Listed = Mapping[str, frozenset[str]]
"""By URL, the parameters that a server lists; without those URLs of which it lists none."""
_OF_THE_PROMPT = {
    "token_ids": (" as token ids", "send a text"),
    "batch": (" as a list of several", "send one at a time"),
    "image_url": (" with an image",),
    "tool_calls": (" with calls of tools",),
}
"""What is no parameter of its own, but a form of the prompt: how clients know it, and the remedy."""
_STRICTNESS: tuple[Handling, ...] = ("forwarded", "translated", "gateway", "dropped", "refused")


class Capabilities(NamedTuple):
    """`server` is its name for clients. `parameters` are names of `question.PARAMETERS`; one that is missing is refused.
    `operations` are those that its model is for, as far as that is known before it is called, and `listed` what it says itself of
    its parameters.
    """

    server: str
    parameters: Mapping[str, Handling]
    operations: frozenset[Operation] = OPERATIONS
    listed: Listed = MappingProxyType({})

    def check(self, used: Iterable[str], prompt_param: str) -> list[str]:
        """The parameters of `used` that are dropped. Raises ApiError for the first that is refused."""
        dropped = []
        for name in used:
            handling = self.parameters.get(name, "refused")
            if handling == "refused":
                how = _OF_THE_PROMPT.get(name, ())
                raise errors.not_offered(prompt_param if how else name, self.server, *how)
            if handling == "dropped":
                dropped.append(name)
        return dropped


ANYTHING = Capabilities("no server", dict.fromkeys(questions.PARAMETERS, "forwarded"))


def in_common(offers: Sequence[Capabilities]) -> Capabilities:
    """What servers of several kinds all do: a parameter is refused where one refuses it, and dropped where one drops it. The
    name has those of all.
    """
    names = frozenset().union(*(offer.parameters for offer in offers))
    return Capabilities(
        " or ".join(dict.fromkeys(offer.server for offer in offers)),
        {
            name: max((offer.parameters.get(name, "refused") for offer in offers), key=_STRICTNESS.index)
            for name in names
        },
        OPERATIONS.intersection(*(offer.operations for offer in offers)),
        {
            path: names.intersection(*(offer.listed[path] for offer in offers))
            for path, names in offers[0].listed.items()
            if all(path in offer.listed for offer in offers)
        },
    )


class Offers:
    """What servers have in common, as far as it is worked out already."""

    __slots__ = ("_common", "_offers")

    def __init__(self) -> None:
        self._offers: Sequence[Capabilities] = ()
        self._common = ANYTHING

    def in_common(self, offers: Sequence[Capabilities]) -> Capabilities:
        """What servers with these all do; anything, where there is none. For each request: nearly always they are alike."""
        if not offers:
            return ANYTHING
        first = offers[0]
        for offer in offers:
            if offer is not first and offer != first:
                break
        else:
            return first
        if offers != self._offers:
            self._offers, self._common = offers, in_common(offers)
        return self._common


def fit(question: Question, capabilities: Capabilities, prompt_param: str) -> tuple[Question, list[str]]:
    """The question without what the server drops, and the names of that. Raises ApiError where it refuses a parameter."""
    dropped = capabilities.check(questions.parameters(question), prompt_param)
    return (questions.without(question, dropped), dropped) if dropped else (question, dropped)
