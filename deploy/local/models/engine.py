"""Runs sequences with continuous batching: new prompts are read together, then every sequence gets one token per step.

The length of a step comes from the timing, its tokens from the sequences. The engine does not depend on Triton.
"""

import os
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Protocol

from deploy.local.models.timing import GpuTiming

POLL_S = 0.02  # how often the engine looks for cancelled sequences


class Running(Protocol):
    """A request that is being answered, as the engine sees it."""

    prompt_tokens: int

    def cancelled(self) -> bool:
        """Whether its client has cancelled it."""

    def step(self) -> bool:
        """Send the next token. Returns False after the last one, or after an error that the sequence has sent."""

    def abandon(self) -> None:
        """The engine has stopped computing it, because it was cancelled."""


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
        """Begin `sequences` at once, and return when there is room for `room_for` more."""
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
            os._exit(70)  # else the process would keep its requests for ever; Triton reports that the process has ended

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
        """Wait for the duration of a step, or until all sequences are cancelled."""
        end = time.monotonic() + duration_s * self._time_scale
        while self._active and not self._stopping and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, POLL_S))
            self._drop_cancelled()

    def _drop_cancelled(self) -> None:
        cancelled = [sequence for sequence in self._active if sequence.cancelled()]
        for sequence in cancelled:
            sequence.abandon()
        self._remove(cancelled)

    def _advance(self, sequences: Sequence[Running]) -> None:
        self._remove([sequence for sequence in sequences if not sequence.step()])

    def _remove(self, ended: Sequence[Running]) -> None:
        if ended:
            with self._changed:
                self._active = [sequence for sequence in self._active if sequence not in ended]
                self._changed.notify_all()
