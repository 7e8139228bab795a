"""The times that a GPU would take: two straight lines, fitted to a published table of measurements.

Source: the performance table of SageServe (from splitwise-sim, MIT licence), which gives prompt and token times of anonymised models
"A" to "D" by GPU, tensor-parallel size, prompt length and batch. The repository holds only the coefficients below, each a least-squares
fit of relative error, ms. Median error of the fits: prefill 10 %, per-token time 2 %. docs/models.md has more.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GpuTiming:
    """prefill(n tokens) = prefill_ms + n * prefill_token_ms; one decode step of b sequences = decode_ms + b * decode_sequence_ms."""

    prefill_ms: float
    prefill_token_ms: float
    decode_ms: float
    decode_sequence_ms: float

    def prefill_s(self, prompt_tokens: int) -> float:
        """Seconds to read `prompt_tokens` tokens, of all prompts that are read together."""
        return (self.prefill_ms + prompt_tokens * self.prefill_token_ms) / 1e3

    def decode_s(self, sequences: int) -> float:
        """Seconds for one token of each of `sequences` sequences."""
        return (self.decode_ms + sequences * self.decode_sequence_ms) / 1e3


TIMINGS = {
    "A/h100-80gb/tp4": GpuTiming(prefill_ms=17.1, prefill_token_ms=0.0942, decode_ms=29.0, decode_sequence_ms=0.315),
    "C/a100-80gb/tp4": GpuTiming(prefill_ms=7.46, prefill_token_ms=0.0464, decode_ms=8.49, decode_sequence_ms=0.233),
}
