"""How a replay went: what users got, what it cost, how restless it was."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
import numpy.typing as npt

from forecasting.series import F64, I64
from forecasting.simulate.arrivals import Arrivals
from forecasting.simulate.policy import Policy
from forecasting.simulate.profile import ReplicaProfile
from forecasting.simulate.state import ANSWERED, Records, Totals

FLAP_S = 600.0
"""A change of the wanted replicas is a flap where the one before went the other way and was less than this ago."""


class ObjectiveError(ValueError):
    """The values cannot be an objective. Permanent: the message names the field and what it must be."""


@dataclass(frozen=True, slots=True)
class Objective:
    """The share `target` of all requests is answered within every threshold that is given: to the first token, between tokens
    (mean of the request), end to end. A request that is not answered is bad.
    """

    target: float
    ttft_s: float | None = None
    itl_s: float | None = None
    e2e_s: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.target < 1:
            raise ObjectiveError(f"target is {self.target}: give the share of good requests, between 0 and 1")
        for name in ("ttft_s", "itl_s", "e2e_s"):
            value = getattr(self, name)
            if value is not None and not (isfinite(value) and value > 0):
                raise ObjectiveError(f"{name} is {value}: give seconds above 0, or leave it out")


@dataclass(frozen=True, slots=True)
class Latency:
    """Of answered requests, in seconds; NaN where none was answered."""

    mean_s: float
    p95_s: float
    p99_s: float


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """The replay over time: each array has a value per `step_s`, the last step may be shorter. Counts of replicas are at its end."""

    step_s: float
    arrived: I64
    good: I64
    """Requests of those that arrived in the step which the objective counts as good."""
    ready: I64
    starting: I64
    draining: I64
    wanted: I64
    running: F64
    """Mean over the step, as is `waiting`."""
    waiting: F64


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What a policy made of the requests.

    `attainment` is the share of good requests, NaN without any. `replica_hours` are from creation to removal: cold starts and drains
    cost, too. `utilisation` is the share of its sequences that a replica has in use while it is up. `changes` counts changes of the
    wanted replicas, `flaps` those against the direction of the one before within FLAP_S.
    """

    policy: str
    objective: Objective
    requests: int
    answered: int
    attainment: float
    replica_hours: float
    gpu_hours: float
    most_replicas: int
    utilisation: float
    changes: int
    flaps: int
    wait: Latency
    ttft: Latency
    e2e: Latency
    steps: Steps

    @property
    def kept(self) -> bool:
        """Whether the objective was kept."""
        return self.attainment >= self.objective.target


def good_requests(requests: Records, objective: Objective) -> npt.NDArray[np.bool_]:
    """Which of a replay's requests the objective counts as good."""
    good: npt.NDArray[np.bool_] = requests["outcome"] == ANSWERED
    if objective.ttft_s is not None:
        good &= requests["ttft_s"] <= objective.ttft_s
    if objective.e2e_s is not None:
        good &= requests["e2e_s"] <= objective.e2e_s
    if objective.itl_s is not None:
        good &= requests["e2e_s"] - requests["ttft_s"] <= objective.itl_s * np.maximum(requests["output_tokens"] - 1, 0)
    return good


def flaps_of(wanted: npt.NDArray[np.integer], tick_s: float) -> tuple[int, int]:
    """How often the wanted replicas changed, and how many of these changes were flaps. `wanted` has a value per tick."""
    change = np.diff(wanted.astype(np.int64))
    at = np.flatnonzero(change)
    turned = np.sign(change[at][1:]) != np.sign(change[at][:-1])
    return len(at), int(np.sum(turned & (np.diff(at) * tick_s < FLAP_S)))


def outcome_of(
    policy: Policy,
    arrivals: Arrivals,
    requests: Records,
    rows: Sequence[Totals],
    step_s: float,
    wanted: npt.NDArray[np.int32],
    profile: ReplicaProfile,
    objective: Objective,
) -> Outcome:
    """Work out the outcome from what the replay recorded: `rows` per step with one before the first, `wanted` per tick."""
    first, last = rows[0], rows[-1]
    good = good_requests(requests, objective)
    inside = int(np.searchsorted(arrivals.arrival_s, last.now_s, side="right"))
    step_of = np.minimum((arrivals.arrival_s[:inside] / step_s).astype(np.int64), len(rows) - 2)
    answered = requests["outcome"][:inside] == ANSWERED
    changes, flaps = flaps_of(wanted, policy.tick_s)
    serving_s = last.ready_s - first.ready_s + last.draining_s - first.draining_s
    replica_s = serving_s + last.starting_s - first.starting_s
    lengths_s = np.maximum(np.diff([row.now_s for row in rows]), 1e-9)
    ends = np.minimum(np.arange(1, len(rows)) * round(step_s / policy.tick_s), len(wanted) - 1)

    def mean(name: str) -> F64:
        over_step: F64 = np.diff([getattr(row, name) for row in rows]) / lengths_s
        return over_step

    steps = Steps(
        step_s,
        arrived=np.bincount(step_of, minlength=len(rows) - 1),
        good=np.bincount(step_of[good[:inside]], minlength=len(rows) - 1),
        ready=np.array([row.ready for row in rows[1:]]),
        starting=np.array([row.starting for row in rows[1:]]),
        draining=np.array([row.draining for row in rows[1:]]),
        wanted=wanted[ends].astype(np.int64),
        running=mean("running_s"),
        waiting=mean("waiting_s"),
    )
    return Outcome(
        policy=policy.name,
        objective=objective,
        requests=inside,
        answered=int(answered.sum()),
        attainment=float(good[:inside].mean()) if inside else float("nan"),
        replica_hours=replica_s / 3600,
        gpu_hours=replica_s / 3600 * profile.gpus,
        most_replicas=max(row.ready + row.starting + row.draining for row in rows),
        utilisation=(last.running_s - first.running_s) / (serving_s * profile.max_sequences) if serving_s else 0.0,
        changes=changes,
        flaps=flaps,
        wait=_latency(requests["wait_s"][:inside][answered]),
        ttft=_latency(requests["ttft_s"][:inside][answered]),
        e2e=_latency(requests["e2e_s"][:inside][answered]),
        steps=steps,
    )


def _latency(values: npt.NDArray[np.float32]) -> Latency:
    if not len(values):
        return Latency(*[float("nan")] * 3)
    mean_s = float(values.mean(dtype=np.float64))
    return Latency(mean_s, *(float(value) for value in np.quantile(values, (0.95, 0.99))))
