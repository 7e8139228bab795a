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
    sequences a token, takes `step_s + b * step_sequence_s + c * step_token_s`, where c is how many tokens their contexts have. This is
    the form of the performance model of splitwise-sim (Splitwise, ISCA 2024; github.com/Mutinifni/splitwise-sim,
    performance_model.py) with straight lines for its interpolation. At most `max_sequences` are computed at once, and no more than
    have room in `kv_tokens`, the tokens of all contexts that the KV cache holds; 0 is no limit. `gpus` is how many a replica has.
    """

    prefill_s: float
    prefill_token_s: float
    step_s: float
    step_sequence_s: float
    max_sequences: int
    gpus: float = 1.0
    kv_tokens: int = 0
    step_token_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("prefill_s", "prefill_token_s", "step_s", "step_sequence_s", "step_token_s", "gpus", "kv_tokens"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0):
                raise ProfileError(f"{name} is {value}: give a finite number, 0 or more")
        if self.max_sequences < 1:
            raise ProfileError(f"max_sequences is {self.max_sequences}: give how many sequences run at once, 1 or more")

    def busy_s(self, input_tokens: F64, output_tokens: F64) -> F64:
        """The replica's time that each request uses when the replica is full: its prefill, and its share of its decode steps."""
        context = input_tokens + output_tokens / 2
        together = self.together(context)
        share_s = self.step_s / together + self.step_sequence_s + self.step_token_s * context
        used: F64 = self.prefill_s + self.prefill_token_s * input_tokens + share_s * np.maximum(output_tokens - 1, 0)
        return used

    def together(self, context_tokens: F64) -> F64:
        """How many sequences of so many tokens each, on average, are computed at once."""
        if not self.kv_tokens:
            return np.full(np.shape(context_tokens), float(self.max_sequences))
        fits: F64 = np.clip(self.kv_tokens / np.maximum(context_tokens, 1.0), 1.0, self.max_sequences)
        return fits
