"""What the evaluation of one objective in one scope says, tick after tick: the one thing incidents are made of."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

from controlplane.slo.core.budget import Budget
from controlplane.slo.core.burn import Verdict
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.windows import Severity

LONGEST_KEY = 700
State = Literal["firing", "quiet", "unknown"]


@dataclass(frozen=True, slots=True)
class Alert:
    """`unknown` is where data is missing or too old: it opens nothing and resolves nothing."""

    objective: Objective
    scope: Mapping[str, str]  # the objective's, with the values that `split_by` found
    at_ns: int
    state: State
    severity: Severity | None  # of the worst firing window; None unless firing
    verdicts: tuple[Verdict, ...]
    budget: Budget | None
    lasts_s: float | None  # until the budget is gone at the rate of the worst window; None where unknown
    maintenance: bool = False  # inside a planned window: it fires for nobody

    @property
    def key(self) -> str:
        """One open incident per key. The same in every process and release."""
        return alert_key(self.objective.slug, self.scope)


def slug_of(key: str) -> str:
    """The objective that an alert's key is of: slugs have no slash."""
    return key.partition("/")[0]


def alert_key(slug: str, scope: Mapping[str, str]) -> str:
    """At most LONGEST_KEY characters: of a longer one the rest is a digest."""
    key = "/".join((slug, *(f"{name}={scope[name]}" for name in sorted(scope))))
    if len(key) <= LONGEST_KEY:
        return key
    digest = blake2b(key.encode(errors="surrogatepass"), digest_size=8).hexdigest()
    return f"{key[: LONGEST_KEY - 18]}…#{digest}"
