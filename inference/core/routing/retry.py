"""When a request may be sent to a second replica: after a failed attempt, or beside a slow one."""

from inference.contract.failure_rules import RETRIES, Retries
from inference.contract.snapshot_parts import Model


class RetryBudget:
    """Bounds a pool's second attempts without a token yet to a share of its requests in flight, but always allows a few: Envoy's
    retry budget (api/envoy/config/cluster/v3/circuit_breaker.proto), where an attempt that answers is no retry any more,
    because answers take long here. Without it, retries multiply the load on servers that fail because of their load.
    """

    __slots__ = ("denied", "rule", "under_way", "used")

    def __init__(self, rule: Retries = RETRIES) -> None:
        self.rule = rule
        self.under_way = 0
        self.used = 0  # since the start
        self.denied = 0

    def take(self, in_flight: int) -> bool:
        """Whether another attempt may begin, with `in_flight` requests in the pool. If so, call `give_back` at its
        first token or its end.
        """
        if self.under_way >= max(self.rule.least, self.rule.percent * in_flight / 100):
            self.denied += 1
            return False
        self.under_way += 1
        self.used += 1
        return True

    def give_back(self) -> None:
        self.under_way -= 1


def hedge_after_s(model: Model, deterministic: bool, prompt_tokens: int, output_tokens: int) -> float:
    """After how long without a token a request is sent to a second replica too; 0 for never.

    Only short requests with a deterministic answer are: what the slower replica did is thrown away, and it should not matter
    which of them answers.
    """
    short = prompt_tokens <= model.hedge_prompt_tokens and output_tokens <= model.hedge_output_tokens
    return model.hedge_ms / 1000 if deterministic and short else 0.0
