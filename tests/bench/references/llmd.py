"""The SLO law of llm-d's Workload Variant Autoscaler: replicas = ceil(arrival rate / highest rate that keeps the objective).

docs/developer-guide/slo-queuemodel.md of llm-d/llm-d-workload-variant-autoscaler, sections 4.3 and 9 (QueueingModelAnalyzer), with
pkg/analyzer/queueanalyzer.go; it decides every 60 s. The parameters α, β, γ that its Kalman filter would learn are taken from the replica's
profile: α is a decode step, β a prompt token, and γ such that a running sequence adds what the profile says.
"""

from dataclasses import dataclass
from math import ceil

from forecasting.simulate.arrivals import Arrivals
from forecasting.simulate.outcome import Objective
from forecasting.simulate.policy import Observation
from forecasting.simulate.profile import ReplicaProfile
from tests.bench.references.queueing import BatchingServer, batching_capacity_rps

MAX_QUEUE = 100
"""DefaultMaxQueueSize."""
SLO_MULTIPLIER = 3.0
"""DefaultSLOMultiplier, for thresholds that the objective does not give: α grows to three times itself."""


@dataclass(frozen=True, slots=True)
class LlmdSlo:
    """Targets are the objective's TTFT and ITL; what it lacks is derived as llm-d does (section 3.2)."""

    profile: ReplicaProfile
    objective: Objective
    tick_s: float = 60.0
    name: str = "llm-d"

    def begin(self, arrivals: Arrivals, replicas: int) -> None:
        pass

    def decide(self, seen: Observation) -> int:
        if not seen.arrived:
            return seen.wanted  # it needs active traffic, and holds without
        capacity_rps = self.capacity_rps(seen.input_tokens / seen.arrived, seen.output_tokens / seen.arrived)
        return ceil(seen.rate_rps / capacity_rps) if capacity_rps > 0 else seen.wanted

    def capacity_rps(self, input_tokens: float, output_tokens: float) -> float:
        """The highest rate of such requests at which a replica keeps the targets; 0 where it never does."""
        profile = self.profile
        output_tokens = max(1.0, output_tokens)
        remembered = input_tokens + output_tokens / 2
        alpha_s, beta_s, gamma_s = profile.step_s, profile.prefill_token_s, profile.step_sequence_s / remembered
        base_s = SLO_MULTIPLIER * alpha_s
        server = BatchingServer(
            float(alpha_s),
            float(beta_s),
            float(gamma_s),
            profile.max_sequences,
            MAX_QUEUE,
            float(input_tokens),
            float(output_tokens),
        )
        ttft_s = self.objective.ttft_s or base_s + (beta_s + gamma_s) * input_tokens
        itl_s = self.objective.itl_s or base_s + beta_s + gamma_s * (input_tokens + (output_tokens + 1) / 2)
        return batching_capacity_rps(server, float(ttft_s), float(itl_s))
