r"""How sure it is that answers given for similar requests are right, and from which similarity on they may be given.

The claim, for each threshold of similarity: of the candidates at or above it, at most a share δ is wrong. It is tested by betting against
its opposite: capital 1 becomes ∏ (1 + b (δ − wrong)) over the labels, with 0 < b < 1 / (1 − δ). For a fixed b let p be the chance, before
each label, that it says wrong. Because 1 + b (δ − p) ≤ exp(b (δ − p)), the capital divided by exp(b Σ (δ − p)) is a nonnegative
supermartingale, so wherever the mean of p is δ or more the capital is below one. By Ville's inequality it reaches m there with a chance of
at most 1/m, at whatever label one looks, as often as one looks. No label has to be like the one before. A mean of such capitals over
several b is one again, and each depends on the numbers of right and wrong labels alone. (Waudby-Smith and Ramdas, "Estimating means of
bounded random variables by betting", JRSS B 2024; one such e-process for each threshold of a Bonferroni grid bounds the risk among what is
served: Conformal Selective Acting, arXiv 2605.20270.)

A threshold is certified while its capital is at least K / α: K thresholds share α. What happened before a change proves nothing of what
comes after it, so each time that the claim breaks the evidence begins again, and so it does after many labels that certified nothing. The
n-th beginning has α / (n (n + 1)), which sums to α: the chance that any certificate of the whole history is wrong is at most α.

That the claim breaks is noticed by an e-detector (Shin, Ramdas and Rinaldo, "E-detectors: a nonparametric framework for sequential change
detection", 2024): capital that bets on too many wrong labels, max(1, capital) (1 + c (wrong − δ)), a mean over several c. While the claim
holds it takes at least as many labels as its limit, in the mean, until it errs.

Labels have to be drawn without regard to similarity or text. While nothing is served each candidate is labelled. Later a random share
is, whether or not it would have been served: `sample_rate`.
"""

import math
from typing import Literal, NamedTuple

ALPHA = 0.05
THRESHOLDS = (0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.99)
_BETS = ((0.95, 0.5), (0.7, 0.2), (0.4, 0.15), (0.15, 0.15))  # share of the largest bet, weight
_AGAINST = (0.8, 0.15)  # c, as a share of the largest, 1 / δ
_DETECTED_AT = 100.0  # labels until a false alarm, in the mean at least
_WAIT_FOR, _MAX_LABELS_RATIO = 0.4, 4
"""A lower threshold with this share of the logarithm that it needs is waited for before anything is served, until there are so many
times the labels of the first certificate: later labels are few."""
MAX_LABELS = 20_000
"""After so many without a certificate the evidence begins again: what was wrong long ago is not held against a route for ever."""
_MIN_SAMPLE, _MAX_SAMPLE = 0.05, 0.5
_MISSED = 6.3
"""With a chance of 95 % the third wrong answer is labelled before so many divided by the share that is labelled were served."""


class Label(NamedTuple):
    """`similarity` of a candidate that the verifier let pass, and whether its answer was not that of the request."""

    similarity: float
    wrong: bool


def sample_rate(served: int, delta: float) -> float:
    """The share of would-be hits that are generated anyway, once `served` were served. It begins high: until a sudden change is
    noticed, what is served wrongly has to be few beside what was served.
    """
    return min(_MAX_SAMPLE, max(_MIN_SAMPLE, _MISSED / (delta * served))) if served else _MAX_SAMPLE


def choose(
    similarity: float, threshold: float | None, rate: float, draw: float
) -> Literal["serve", "label", "generate"]:
    """What becomes of a candidate: it is served; or the request is generated, and the candidate labelled by its answer; or it is only
    generated. `draw` is even in [0, 1) and nobody's choice. It decides alone which candidates are labelled.
    """
    if threshold is None or draw < rate:
        return "label"
    return "serve" if similarity >= threshold else "generate"


class Evidence:
    """Of one route. Labels are added in the order in which they came, which is the same for all who read them. `alpha` is its part of the
    chance that anything of a model is certified wrongly.
    """

    def __init__(self, delta: float, alpha: float = ALPHA) -> None:
        if not 0 < delta < 0.5:
            raise ValueError(f"the share of wrong answers must be above 0 and below 0.5, and is {delta}")
        self.delta, self.alpha = delta, alpha
        self.changes = 0  # how often the claim broke
        self._beginnings = 0
        self._up = [math.log1p(share / (1 - delta) * delta) for share, _ in _BETS]
        self._down = [math.log1p(-share) for share, _ in _BETS]
        self._begin()

    def _begin(self) -> None:
        self._beginnings += 1
        self.labels = 0
        self.right, self.wrong = [0] * len(THRESHOLDS), [0] * len(THRESHOLDS)
        self.threshold: float | None = None
        self._first_certified_at, self._served = 0, False
        self._detected = [1.0] * len(_AGAINST)

    @property
    def _log_needed(self) -> float:
        return math.log(len(THRESHOLDS) * self._beginnings * (self._beginnings + 1) / self.alpha)

    def add(self, label: Label) -> bool:
        """Take a label. Returns whether it breaks the claim, so that nothing is served until there is new evidence."""
        if self.threshold is not None and label.similarity >= self.threshold and self._breaks(label.wrong):
            self.changes += 1
            self._begin()
            return True
        self.labels += 1
        counts = self.wrong if label.wrong else self.right
        for number, threshold in enumerate(THRESHOLDS):
            if label.similarity < threshold:
                break
            counts[number] += 1
        self._judge()
        if self.threshold is None and self.labels >= MAX_LABELS:
            self._begin()
        return False

    def capital(self, number: int) -> float:
        """The logarithm of the capital that bets on the threshold of this number."""
        right, wrong = self.right[number], self.wrong[number]
        logs = [
            math.log(weight) + right * up + wrong * down
            for (_, weight), up, down in zip(_BETS, self._up, self._down, strict=True)
        ]
        most = max(logs)
        return most + math.log(sum(math.exp(log - most) for log in logs))

    @property
    def labels_wanted(self) -> int:
        """How many labels a threshold needs that has seen nothing wrong. Each wrong one costs about two hundred more at δ = 1 %."""
        return math.ceil((self._log_needed - math.log(_BETS[0][1])) / self._up[0])

    def _judge(self) -> None:
        needed, before = self._log_needed, self.threshold
        capitals = [self.capital(number) for number in range(len(THRESHOLDS))]
        self.threshold = next((it for it, capital in zip(THRESHOLDS, capitals, strict=True) if capital >= needed), None)
        if self.threshold is not None and not self._served:
            self._first_certified_at = self._first_certified_at or self.labels
            waits = any(
                _WAIT_FOR * needed <= capital < needed for capital in capitals[: THRESHOLDS.index(self.threshold)]
            )
            if waits and self.labels < _MAX_LABELS_RATIO * self._first_certified_at:
                self.threshold = None
            else:
                self._served = True
        if self.threshold != before:  # it is another claim
            self._detected = [1.0] * len(_AGAINST)

    def _breaks(self, wrong: bool) -> bool:
        self._detected = [
            max(1.0, capital) * (1 + share / self.delta * (wrong - self.delta))
            for capital, share in zip(self._detected, _AGAINST, strict=True)
        ]
        return sum(self._detected) / len(_AGAINST) >= _DETECTED_AT
