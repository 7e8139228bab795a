"""A simulated model server in virtual time: continuous batching with chunked prefill and a prefix cache, as vLLM does.

A step takes `base_s`, `sequence_s` for each sequence that decodes and `prompt_token_s` for each prompt token that it
computes, of which it takes at most `STEP_TOKENS`. The defaults are of the order of an 8B model on one A100.
"""

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from inference.contract.server_metrics import ServerLoad
from inference.core.routing.prefix import PrefixLru

STEP_TOKENS = 2048
KV_TOKENS = 120_000
CACHED_BLOCKS = 1_200  # of 64 tokens


class Clock:
    """Virtual time: what is due is called in order."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._due: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = count()

    def after(self, delay_s: float, call: Callable[..., None], *given: Any) -> None:
        heapq.heappush(self._due, (self.now_s + delay_s, next(self._count), call, given))

    def run(self, until_s: float) -> None:
        while self._due and self._due[0][0] <= until_s:
            self.now_s, _, call, given = heapq.heappop(self._due)
            call(*given)


@dataclass(eq=False, slots=True)
class Work:
    """A request at a server. `failed` is called with "failed" or "busy" where it is not answered."""

    prompt_tokens: int
    blocks: tuple[int, ...]
    output_tokens: int
    first_token: Callable[[], None]
    ended: Callable[[], None]
    failed: Callable[[str], None]
    left: int = 0  # prompt tokens to compute
    cached: int = 0


@dataclass(eq=False)
class Server:
    clock: Clock
    slowness: float = 1.0  # of each step
    most_sequences: int = 64
    most_waiting: int = 1 << 30
    base_s: float = 0.012
    sequence_s: float = 0.00015
    prompt_token_s: float = 0.00006
    failing: bool = False
    hits: int = 0  # prompt tokens that the prefix cache had
    asked: int = 0
    _waiting: deque[Work] = field(default_factory=deque)
    _prefilling: deque[Work] = field(default_factory=deque)
    _ends: list[tuple[int, int, Work]] = field(default_factory=list)  # of decoding sequences, by step
    _cache: PrefixLru = field(default_factory=lambda: PrefixLru(CACHED_BLOCKS))
    _step: int = 0
    _kv_tokens: int = 0
    _busy: bool = False
    _count: Any = field(default_factory=count)

    def take(self, work: Work) -> None:
        if self.failing:
            self.clock.after(0.005, work.failed, "failed")
        elif len(self._waiting) >= self.most_waiting:
            self.clock.after(0.002, work.failed, "busy")
        else:
            self._waiting.append(work)
            self._go()

    @property
    def running(self) -> int:
        return len(self._prefilling) + len(self._ends)

    def signals(self) -> ServerLoad:
        return ServerLoad(
            self.clock.now_s, float(len(self._waiting)), float(self.running), min(1.0, self._kv_tokens / KV_TOKENS)
        )

    def _go(self) -> None:
        if self._busy:
            return
        while self._waiting and self.running < self.most_sequences:
            work = self._waiting[0]
            size = work.prompt_tokens + work.output_tokens
            if self._kv_tokens + size > KV_TOKENS and self.running:
                break
            self._waiting.popleft()
            self._kv_tokens += size
            work.cached = min(64 * self._cache.matched(work.blocks), work.prompt_tokens - 1)
            work.left = work.prompt_tokens - work.cached
            self.hits += work.cached
            self.asked += work.prompt_tokens
            self._prefilling.append(work)
        if not self._prefilling and not self._ends:
            return
        room, done = STEP_TOKENS, []
        while self._prefilling and room:
            work = self._prefilling[0]
            part = min(room, work.left)
            work.left -= part
            room -= part
            if work.left:
                break
            done.append(self._prefilling.popleft())
        step_s = self.base_s + self.sequence_s * len(self._ends) + self.prompt_token_s * (STEP_TOKENS - room)
        self._busy = True
        self.clock.after(step_s * self.slowness, self._stepped, done)

    def _stepped(self, done: list[Work]) -> None:
        self._busy = False
        self._step += 1
        for work in done:
            self._cache.add(work.blocks)
            heapq.heappush(self._ends, (self._step + work.output_tokens - 1, next(self._count), work))
            work.first_token()
        while self._ends and self._ends[0][0] <= self._step:
            work = heapq.heappop(self._ends)[2]
            self._kv_tokens -= work.prompt_tokens + work.output_tokens
            work.ended()
        self._go()
