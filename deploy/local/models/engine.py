"""Continuous batching: new prompts are read together, then every running sequence gets one token per step.

A step's length comes from the timing, its tokens from the sequences. Nothing here knows of Triton.
"""

import os
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Protocol

from deploy.local.models.timing import GpuTiming

POLL_S = 0.02  # how often sequences are asked whether they are cancelled


class Running(Protocol):
    """One request being answered, as the engine sees it."""

    prompt_tokens: int

    def cancelled(self) -> bool:
        """Whether nobody wants the answer any more."""

    def step(self) -> bool:
        """Give out the next token; False when it was the last (or failed: then the sequence has told its client)."""

    def abandon(self) -> None:
        """Computing has stopped because it was cancelled."""


class Engine:
    """Runs sequences on a thread of its own, at most `slots` at a time. `time_scale` multiplies every duration."""

    def __init__(
        self,
        timing: GpuTiming,
        slots: int,
        time_scale: float = 1.0,
        on_step: Callable[[int], None] = lambda active: None,
    ) -> None:
        self._timing = timing
        self._slots = slots
        self._time_scale = time_scale
        self._on_step = on_step
        self._active: list[Running] = []
        self._arrived: list[Running] = []
        self._stopping = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def submit(self, sequences: Sequence[Running], room_for: int) -> None:
        """Begin with `sequences` at once, and return when there is room for `room_for` more: whoever waits, waits with the caller."""
        with self._changed:
            self._arrived.extend(sequences)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._stopping or self._taken() + room_for <= self._slots)

    def stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join()

    def _taken(self) -> int:
        return len(self._active) + len(self._arrived)

    def _run(self) -> None:
        try:
            self._loop()
        except BaseException:  # noqa: BLE001  (whatever it is)
            traceback.print_exc()
            os._exit(70)  # without it the process would hold requests for ever; Triton sees the end, and says so

    def _loop(self) -> None:
        reading: list[Running] = []
        while True:
            with self._changed:
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._stopping or self._taken() > 0)
                if self._stopping:
                    return
                reading, self._arrived = self._arrived, []
                self._active += reading
            if reading:
                self._pass(self._timing.prefill_s(sum(sequence.prompt_tokens for sequence in reading)))
                self._advance([sequence for sequence in self._active if sequence in reading])
            else:
                self._pass(self._timing.decode_s(len(self._active)))
                self._advance(self._active)
            self._on_step(len(self._active))

    def _pass(self, duration_s: float) -> None:
        """Let a step's time go by. Stop early when everyone has gone."""
        end = time.monotonic() + duration_s * self._time_scale
        while self._active and not self._stopping and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, POLL_S))
            self._drop_cancelled()

    def _drop_cancelled(self) -> None:
        gone = [sequence for sequence in self._active if sequence.cancelled()]
        for sequence in gone:
            sequence.abandon()
        self._remove(gone)

    def _advance(self, sequences: Sequence[Running]) -> None:
        self._remove([sequence for sequence in sequences if not sequence.step()])

    def _remove(self, gone: Sequence[Running]) -> None:
        if gone:
            with self._changed:
                self._active = [sequence for sequence in self._active if sequence not in gone]
                self._changed.notify_all()
