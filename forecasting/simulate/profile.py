"""How long a replica takes: the times of prefill and decode that the simulator works with."""

from dataclasses import dataclass

import numpy as np

from forecasting.series import F64


class ProfileError(ValueError):
    """The values cannot be a replica's profile. Permanent: the message names the field and what it must be."""


@dataclass(frozen=True, slots=True)
class ReplicaProfile:
    """A replica with continuous batching.

    Reading prompts of n tokens in all takes `prefill_s + n * prefill_token_s`; a decode step, which gives each of b running
    sequences a token, takes `step_s + b * step_sequence_s`. This is the form of the performance model of splitwise-sim
    (Splitwise, ISCA 2024; github.com/Mutinifni/splitwise-sim, performance_model.py) with straight lines for its
    interpolation. At most `max_sequences` are computed at once.
    `gpus` is how many a replica has.
    """

    prefill_s: float
    prefill_token_s: float
    step_s: float
    step_sequence_s: float
    max_sequences: int
    gpus: float = 1.0

    def __post_init__(self) -> None:
        for name in ("prefill_s", "prefill_token_s", "step_s", "step_sequence_s", "gpus"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0):
                raise ProfileError(f"{name} is {value}: give a finite number, 0 or more")
        if self.max_sequences < 1:
            raise ProfileError(f"max_sequences is {self.max_sequences}: give how many sequences run at once, 1 or more")

    def busy_s(self, input_tokens: F64, output_tokens: F64) -> F64:
        """The replica's time that each request uses when the replica is full: its prefill, and its share of its decode steps."""
        share_s = self.step_s / self.max_sequences + self.step_sequence_s
        used: F64 = self.prefill_s + self.prefill_token_s * input_tokens + share_s * np.maximum(output_tokens - 1, 0)
        return used
