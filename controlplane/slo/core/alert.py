"""The result of evaluating one objective in one scope at one time. Incidents are made of these."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

from controlplane.slo.core.budget import Budget
from controlplane.slo.core.burn import Verdict
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.windows import Severity

MAX_KEY_CHARS = 700
State = Literal["firing", "quiet", "unknown"]


@dataclass(frozen=True, slots=True)
class Alert:
    """The state is `unknown` where data is missing or too old: it neither opens nor resolves an incident."""

    objective: Objective
    scope: Mapping[str, str]  # the objective's, with the values of `split_by`
    at_ns: int
    state: State
    severity: Severity | None  # of the worst firing window; None unless firing
    verdicts: tuple[Verdict, ...]
    budget: Budget | None
    lasts_s: float | None  # s until the budget is used up at the rate of the worst window; None where unknown
    maintenance: bool = False  # inside a maintenance window: it notifies nobody
    unmeasured_s: int = 0  # of the period so far, s

    @property
    def key(self) -> str:
        """Identifies the incident: at most one is open per key. The same in every process and release."""
        return alert_key(self.objective.slug, self.scope)


def slug_of(key: str) -> str:
    """The slug of the objective in an alert's key. Slugs contain no slash."""
    return key.partition("/")[0]


def alert_key(slug: str, scope: Mapping[str, str]) -> str:
    """At most MAX_KEY_CHARS characters: the end of a longer key is replaced by a digest."""
    key = "/".join((slug, *(f"{name}={scope[name]}" for name in sorted(scope))))
    if len(key) <= MAX_KEY_CHARS:
        return key
    digest = blake2b(key.encode(errors="surrogatepass"), digest_size=8).hexdigest()
    return f"{key[: MAX_KEY_CHARS - 18]}…#{digest}"
