"""Prompts at which servers have died, so that none of them takes a whole pool along."""

import hashlib
from collections import OrderedDict

from inference.core.passing.request import Passed
from inference.core.question import Question
from inference.core.routing.need import parts_of

MAX_DEATHS = 2
"""Replicas whose connection was lost while they had a prompt; a third does not get it. One may be chance."""
REMEMBERED_S = 60.0
"""Longer than clients repeat a request by themselves, and short for a prompt that was there by chance."""
_MAX_PROMPTS = 1000


class Suspects:
    """Counts the deaths at each prompt, for all pools. Times are seconds on any monotonic clock."""

    __slots__ = ("_deaths",)

    def __init__(self) -> None:
        self._deaths: OrderedDict[bytes, tuple[int, float]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._deaths)

    def died(self, prompt: bytes, now_s: float) -> None:
        """A replica's connection was lost while it had this prompt."""
        deaths = self.deaths(prompt, now_s)
        self._deaths[prompt] = (deaths + 1, now_s)
        self._deaths.move_to_end(prompt)
        while len(self._deaths) > _MAX_PROMPTS:
            self._deaths.popitem(last=False)

    def answered(self, prompt: bytes) -> None:
        """It was not the prompt."""
        self._deaths.pop(prompt, None)

    def deaths(self, prompt: bytes, now_s: float) -> int:
        """How many replicas died at this prompt, unless the last one did so more than a minute ago."""
        deaths, at_s = self._deaths.get(prompt, (0, now_s))
        if now_s - at_s < REMEMBERED_S:
            return deaths
        del self._deaths[prompt]
        return 0


def digest_of(model: str, question: Question | Passed) -> bytes:
    """What a prompt is known by. The prompt itself is not kept."""
    digest = hashlib.blake2b(model.encode(), digest_size=16)
    if isinstance(question, Passed):
        digest.update(question.prompt_digest)
        return digest.digest()
    for part in parts_of(question):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.digest()
