"""What keeps a decision from acting on what is not known, each as a change of the code that takes it away. Histories must notice."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from controlplane.policy.core import pool_values, scaling, targets
from controlplane.policy.core.conditions import Truth
from controlplane.policy.core.overlay import failover, ladder
from controlplane.policy.core.rails.rails import RAILS
from controlplane.policy.observe.core import traffic
from controlplane.policy.observe.core.traffic import Heard
from tests.bench.unknown.history import judged

Patch = Callable[[], Any]


def _no_rail(name: str) -> Patch:
    return lambda: patch.object(targets, "RAILS", tuple(rail for rail in RAILS if rail.name != name))


def _unknown_is_false(where: Any) -> Patch:
    known = where.holds

    def holds(*args: Any) -> Truth:
        truth: Truth = known(*args)
        return Truth(False) if truth.holds is None else truth

    return lambda: patch.object(where, "holds", holds)


def _unknown_is_true(where: Any) -> Patch:
    known = where.holds

    def holds(*args: Any) -> Truth:
        truth: Truth = known(*args)
        return Truth(True) if truth.holds is None else truth

    return lambda: patch.object(where, "holds", holds)


@contextmanager
def _old_traffic_is_known() -> Iterator[None]:
    """It is learnt from, and holds nothing: the law of scaling and the rail `metrics` each keep what stands."""
    with _no_rail("metrics")(), patch.object(scaling, "fresh", lambda *_: True):
        yield


RAILS_NEEDED = ("cluster", "capacity", "min", "in_flight", "failing", "outage", "rollout")
PROTECTIONS: dict[str, Patch] = {
    **{f"rail {name}": _no_rail(name) for name in RAILS_NEEDED},
    "traffic that is old is not known": _old_traffic_is_known,
    "an unknown condition ends no failover": _unknown_is_false(failover),
    "an unknown condition begins no failover": _unknown_is_true(failover),
    "an unknown condition ends no step of a ladder": _unknown_is_true(ladder),
    "an objective that is not judged may stand worse": lambda: patch.object(
        pool_values, "_worst", lambda name, tiers, is_whole, known=pool_values._worst: known(name, tiers, is_whole=True)
    ),
    "a gateway that is silent counts on": lambda: patch.object(
        Heard, "counts", property(lambda heard: not heard.problem)
    ),
    "unreachable is what every gateway says": lambda: patch.object(
        traffic,
        "_reached",
        lambda latest: [all(r.up for pool in latest for r in pool.replicas.values())],
    ),
}


@contextmanager
def without(name: str) -> Iterator[None]:
    with PROTECTIONS[name]():
        yield


def first_found_without(name: str, seed: int, most: int) -> int | None:
    """The number of the first history that goes wrong without this protection; None where none of so many does."""
    with without(name):
        return next((number for number in range(most) if judged(seed, number)), None)
