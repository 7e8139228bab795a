"""One load, from its schedule to its samples."""

import asyncio
import gc
import resource
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from inference.loadtest.client import Client, TargetError
from inference.loadtest.core.result import Outcome
from inference.loadtest.core.samples import CUT_SHORT, Sample
from inference.loadtest.core.verdict import busiest
from inference.loadtest.core.workload import Planned
from inference.loadtest.pacer import Pacer, now_s
from inference.loadtest.prompts import Prompts

WARM_UP_TOKENS = 128
_CPU_EVERY_S = 0.5
_START_IN_S = 0.05


@dataclass(frozen=True, slots=True)
class Conversation:
    """How many turns each has, and how long its user thinks before the next. A later turn is due that long after the answer before it."""

    turns: int = 1
    think_s: float = 0.0


class Load:
    """Sends requests that are planned. `samples` are those that were due so far."""

    def __init__(self, client: Client, prompts: Prompts, conversation: Conversation = Conversation()) -> None:
        self._client, self._prompts, self._prefixes, self._conversation = client, prompts, list[str](), conversation
        self.samples: list[Sample] = []
        self.began_s = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._plan: Sequence[Planned] = ()

    async def warm_up(self) -> None:
        """Two requests one after the other, by whose counts prompts get their length. Raises TargetError."""
        for _ in range(2):
            words = self._prompts.words(WARM_UP_TOKENS)
            sample = Sample(-1, 0.0)
            await self._client.send(sample, self._client.target.body(_messages(self._prompts.text(words)), 16), now_s())
            if sample.failure:
                raise TargetError(f"{sample.failure}: {sample.said}")
            self._prompts.learn(words, sample.input_tokens)

    def share(self, prefixes: int, tokens: int) -> None:
        """Make so many beginnings of prompts, each of so many tokens."""
        self._prefixes = [self._prompts.text(self._prompts.words(tokens)) for _ in range(prefixes)] if tokens else []

    @property
    def now_s(self) -> float:
        """Seconds since the load's start."""
        return now_s() - self.began_s

    async def run(self, plan: Sequence[Planned], stop: asyncio.Event) -> Outcome:
        """To the last answer, or until `stop` is set: then what is under way is taken back."""
        self.samples, self._plan = [], plan
        self._client.gaps_s = array("f")
        marks = [(now_s(), time.process_time())]
        sent = asyncio.Event()
        self.began_s = now_s() + _START_IN_S
        pacer = Pacer([planned.due_s for planned in plan], self.began_s, self._start, sent.set)
        measuring = asyncio.create_task(_measure_cpu(marks))
        sending = asyncio.create_task(sent.wait())
        stopping = asyncio.create_task(stop.wait())
        gc.collect()
        gc.disable()
        try:
            pacer.start()
            await asyncio.wait({sending, stopping}, return_when=asyncio.FIRST_COMPLETED)
            pacer.stop()
            while self._tasks and not stop.is_set():
                await asyncio.wait({*self._tasks, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gc.enable()
            pacer.stop()
            left = [*self._tasks, measuring, sending, stopping]
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
        marks.append((now_s(), time.process_time()))
        cut = any(sample.failure == CUT_SHORT for sample in self.samples) or len(self.samples) < len(plan)
        return Outcome(
            self.samples,
            self._client.gaps_s,
            pacer.beats_s,
            busiest(marks),
            max((sample.ended_s or 0.0 for sample in self.samples), default=0.0),
            len(plan) * self._conversation.turns,
            cut,
        )

    def _start(self, number: int) -> None:
        task = asyncio.get_running_loop().create_task(self._converse(number))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _converse(self, number: int) -> None:
        planned = self._plan[number]
        due_s, messages = planned.due_s, list[dict[str, str]]()
        for turn in range(self._conversation.turns):
            sample = Sample(number, due_s, planned.output_tokens, turn)
            self.samples.append(sample)
            messages += _messages(self._prompt(planned, turn))
            answer = await self._client.send(
                sample, self._client.target.body(messages, planned.output_tokens), self.began_s
            )
            if sample.failure or turn + 1 == self._conversation.turns:
                return
            messages.append({"role": "assistant", "content": answer})
            due_s = (sample.ended_s or 0.0) + self._conversation.think_s
            await asyncio.sleep(max(0.0, self.began_s + due_s - now_s()))

    def _prompt(self, planned: Planned, turn: int) -> str:
        words = self._prompts.words(planned.input_tokens)
        if planned.prefix < 0 or turn:
            return self._prompts.text(words)
        prefix = self._prefixes[planned.prefix]
        return f"{prefix} {self._prompts.text(max(1, words - prefix.count(' ') - 1))}"


def _messages(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


async def _measure_cpu(marks: list[tuple[float, float]]) -> None:
    while True:
        await asyncio.sleep(_CPU_EVERY_S)
        marks.append((now_s(), time.process_time()))


def allow_many_connections() -> None:
    """As many as the system lets this user have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
