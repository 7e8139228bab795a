"""Chooses the replica from which an answer is expected first.

The expected time has two parts. Until the first token the replica computes prompt tokens: those of requests that wait
there, and this request's own, without what its KV cache probably has. After it, each token takes as long as a step of a
batch of the size that it has then. What a prompt token and a step take is learnt per replica from the answers that this
gateway saw, and forgotten with time, so that a replica that was slow is tried again.

A prompt token to compute also holds up every sequence in the batch, so it counts once for each of these too.

A server whose KV cache is nearly full computes sequences a second time, and one that has not loaded the model's LoRA adapter
loads it first.
"""

from collections.abc import Sequence
from typing import NamedTuple

from inference.contract.failure_rules import EJECTION, Ejection
from inference.core.routing.candidates import Candidate, Replica, usable
from inference.core.routing.load import Rate, ReplicaLoad
from inference.core.routing.need import Need

STEP_TOKENS = 256.0
"""The step that computes a prompt takes as long as so many more prompt tokens."""
STEP_SEQUENCES = 64.0
"""The step of an empty batch takes as long as so many more sequences in it."""
RATE_HALVES_S = 10.0
"""What was learnt of a replica counts half after so long without an answer; the mean of the pool counts for the rest."""
HOME_SHARE = 0.8
"""How much of a prompt its home replica probably has, from other gateways (`_home`)."""
KV_TIGHT = 0.9
"""Share of a KV cache in use above which servers may take a sequence's part away, and compute it again; at 1 they do."""
ADAPTER_TOKENS = 2000.0
"""To load a LoRA adapter takes as long as so many prompt tokens: the order of 100 MB from the host's memory, and its start."""
LEARNING = 0.02
"""What one request counts in the means of a pool."""
_WORST = (True, True, True, float("inf"))
PROMPT_TOKEN_S, SEQUENCE_S = 1 / 8000, 0.02 / (STEP_SEQUENCES + 16)
"""Until the first answer: the order of an 8B model on one A100. Only their ratio matters then."""


class Weighed(NamedTuple):
    """What a choice was made of, as far as it is known: how many replicas there were to choose from, when each of the best two was
    expected to have answered, and of the chosen one its requests, prompt tokens to compute before this request's, tokens of the
    prompt that it probably has, KV use, and whether it has the model's adapter.
    """

    candidates: int
    expected_s: float
    next_s: float | None
    sequences: float
    tokens_ahead: float
    cached_tokens: float
    kv_use: float | None
    has_adapter: bool | None


class Balancer:
    """Chooses among the replicas of one pool. Signals older than `stale_s` are unknown. `model` is what its servers call the model.
    `weighed` is of the last choice; None where there was nothing to choose.
    """

    def __init__(self, stale_s: float, rule: Ejection = EJECTION, model: str = "") -> None:
        self.stale_s, self.rule, self.model = stale_s, rule, model
        self.weighed: Weighed | None = None
        self.uncached = 256.0  # tokens of a prompt to compute, the mean
        self.output = 128.0  # tokens of an answer, the mean
        self._others = self._others_waiting = 0.0  # the means of replicas whose signals are known
        self._turn = 0

    def choose(self, replicas: Sequence[Replica], need: Need, tried: Sequence[Replica], now_s: float) -> Replica | None:
        """The replica with the least expected time, preferably one that is warm, whose last probe was answered and whose server
        has room; equals take turns. None if there is none but those in `tried`.
        """
        candidates = usable(replicas, now_s, self.rule)
        if tried:
            candidates = [replica for replica in candidates if replica not in tried]
        self.weighed = None
        if len(candidates) < 2:
            return candidates[0] if candidates else None
        self._look(replicas, now_s)
        adapted = any(self._has_adapter(replica.load, now_s) for replica in candidates)
        loads = [replica.load for replica in replicas]
        prompt_token_s = _mean([load.first for load in loads], now_s, PROMPT_TOKEN_S)
        sequence_s = _mean([load.token for load in loads], now_s, SEQUENCE_S)
        home = _home(candidates, need)
        output = min(need.output_tokens, self.output)
        best: Replica | None = None
        best_rank, next_rank = _WORST, _WORST
        self._turn += 1
        size = len(candidates)
        for offset in range(size):
            replica = candidates[(self._turn + offset) % size]
            health, load = replica.health, replica.load
            uncached = _uncached(replica, need)
            if replica is home:
                uncached *= 1 - HOME_SHARE
            debt = health.debt(now_s)
            sequences = self.sequences(load, now_s) + debt
            tokens = STEP_TOKENS + self.tokens_ahead(load, now_s) + debt * self.uncached + uncached * (1 + sequences)
            tokens += self._tightness(load, now_s) * (need.prompt_tokens + output)
            if adapted and self._has_adapter(load, now_s) is False:
                tokens += ADAPTER_TOKENS
            expected_s = tokens * _aged(load.first, prompt_token_s, now_s)
            expected_s += output * (STEP_SEQUENCES + sequences + 1) * _aged(load.token, sequence_s, now_s)
            rank = (replica.warming.kept_back, health.state != "up", replica.full or health.busy(now_s), expected_s)
            if best is None or rank < best_rank:
                best, best_rank, next_rank = replica, rank, best_rank
            elif rank < next_rank:
                next_rank = rank
        if best is not None:
            load = best.load
            home_has = HOME_SHARE * _uncached(best, need) if best is home else 0.0
            self.weighed = Weighed(
                size,
                best_rank[3],
                next_rank[3] if next_rank is not _WORST else None,
                self.sequences(load, now_s),
                self.tokens_ahead(load, now_s),
                need.prompt_tokens - _uncached(best, need) + home_has,
                load.signals.kv_use if self._fresh(load, now_s) and load.signals else None,
                self._has_adapter(load, now_s) if adapted else None,
            )
        return best

    def begin(self, replica: Candidate, need: Need, now_s: float) -> "Call":
        """A request is sent to `replica`."""
        replica.health.call_sent(now_s)
        return Call(self, replica, need, now_s)

    def sequences(self, load: ReplicaLoad, now_s: float) -> float:
        """Requests at the replica, of all gateways. Where it does not say, the others' are as many as elsewhere."""
        others = load.others(now_s - self.stale_s)
        return load.own + (self._others if others is None else others)

    def tokens_ahead(self, load: ReplicaLoad, now_s: float) -> float:
        """Prompt tokens that the replica has to compute first, for all gateways."""
        waiting = load.others_waiting(now_s - self.stale_s)
        return load.pending_tokens + self.uncached * (self._others_waiting if waiting is None else waiting)

    def waiting(self, replicas: Sequence[Candidate], now_s: float) -> int:
        """Requests that the servers have and have not begun, of those that say so."""
        loads = [replica.load for replica in replicas]
        return sum(int(load.signals.waiting or 0) for load in loads if load.signals and self._fresh(load, now_s))

    def idle(self, replicas: Sequence[Candidate], now_s: float) -> bool:
        """Whether each server that may be up says that no request waits there."""
        loads = [replica.load for replica in replicas if replica.health.state != "down"]
        return bool(loads) and all(self._fresh(it, now_s) and it.signals and it.signals.waiting == 0 for it in loads)

    def _fresh(self, load: ReplicaLoad, now_s: float) -> bool:
        return load.signals is not None and load.signals.at_s >= now_s - self.stale_s

    def _tightness(self, load: ReplicaLoad, now_s: float) -> float:
        """From 0 to 1: how probable it is that a sequence of the replica is computed twice for want of KV cache."""
        signals = load.signals
        if signals is None or signals.kv_use is None or not self._fresh(load, now_s):
            return 0.0
        return max(0.0, (signals.kv_use - KV_TIGHT) / (1 - KV_TIGHT))

    def _has_adapter(self, load: ReplicaLoad, now_s: float) -> bool | None:
        """Whether the replica has loaded the model as a LoRA adapter. None where it does not say which it has."""
        signals = load.signals
        if signals is None or signals.adapters is None or not self._fresh(load, now_s):
            return None
        return self.model in signals.adapters

    def _look(self, replicas: Sequence[Candidate], now_s: float) -> None:
        since_s = now_s - self.stale_s
        others = [number for replica in replicas if (number := replica.load.others(since_s)) is not None]
        waiting = [number for replica in replicas if (number := replica.load.others_waiting(since_s)) is not None]
        self._others = sum(others) / len(others) if others else 0.0
        self._others_waiting = sum(waiting) / len(waiting) if waiting else 0.0


class Call:
    """A request at a replica, from when it is sent until it has ended. Call `ended` once, and `first_token` at most once
    before it.
    """

    __slots__ = ("_balancer", "_first_s", "_load", "_sent_s", "_sequences", "_tokens", "_uncached")

    def __init__(self, balancer: Balancer, replica: Candidate, need: Need, now_s: float) -> None:
        load = replica.load
        self._balancer, self._load, self._sent_s, self._first_s = balancer, load, now_s, 0.0
        self._uncached = _uncached(replica, need)
        self._tokens = STEP_TOKENS + balancer.tokens_ahead(load, now_s) + self._uncached
        load.own += 1
        load.pending += 1
        load.pending_tokens += self._uncached
        self._sequences = balancer.sequences(load, now_s)
        replica.prefixes.add(need.blocks)

    def first_token(self, now_s: float) -> None:
        self._first_s = now_s
        self._settle()
        self._load.first.observe(now_s - self._sent_s, self._tokens, now_s)
        self._balancer.uncached += LEARNING * (self._uncached - self._balancer.uncached)

    def ended(self, now_s: float, output_tokens: int = 0) -> None:
        """`output_tokens` of a whole answer; 0 where it failed or was cancelled."""
        balancer, load = self._balancer, self._load
        if output_tokens:
            load.answered_s = now_s
        if output_tokens and self._first_s:
            balancer.output += LEARNING * (output_tokens - balancer.output)
            if output_tokens > 1:
                sequences = (self._sequences + balancer.sequences(load, now_s)) / 2
                steps = (output_tokens - 1) * (STEP_SEQUENCES + sequences)
                load.token.observe(now_s - self._first_s, steps, now_s)
        load.own -= 1
        if not self._first_s:
            self._settle()

    def _settle(self) -> None:
        self._load.pending -= 1
        self._load.pending_tokens -= self._uncached


def _uncached(replica: Candidate, need: Need) -> float:
    """The tokens of the prompt that the replica has not had from this gateway."""
    blocks = len(need.blocks)
    return need.prompt_tokens * (1 - replica.prefixes.matched(need.blocks) / blocks) if blocks else need.prompt_tokens


def _home(candidates: Sequence[Replica], need: Need) -> Replica | None:
    """The replica where all gateways prefer prompts that begin alike, so that what one sends there helps the others:
    rendezvous hashing (Thaler and Ravishankar, 1998). Hashes of numbers are the same in every process.
    """
    return max(candidates, key=lambda replica: hash((replica.home, need.home))) if need.home else None


def _mean(rates: Sequence[Rate], now_s: float, unknown: float) -> float:
    """The mean of a pool; what is older counts less."""
    seconds = units = 0.0
    for rate in rates:
        weight = _weight(rate, now_s)
        seconds += weight * rate.seconds
        units += weight * rate.units
    return seconds / units if units else unknown


def _aged(rate: Rate, mean: float, now_s: float) -> float:
    """What was learnt of a replica, and the pool's mean, weighed by how old the former is."""
    if not rate.units:
        return mean
    weight = _weight(rate, now_s)
    return weight * rate.seconds / rate.units + (1 - weight) * mean


def _weight(rate: Rate, now_s: float) -> float:
    weight: float = 0.5 ** ((now_s - rate.at_s) / RATE_HALVES_S)
    return weight
