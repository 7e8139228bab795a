"""The replicas that may get a call."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from inference.contract.failure_rules import EJECTION, Ejection
from inference.core.routing.health import Health
from inference.core.routing.load import ReplicaLoad
from inference.core.routing.prefix import PrefixLru
from inference.core.routing.warming import Warming


class Candidate(Protocol):
    """What routing sees of a replica.

    `full` says that its server is at its limit of calls, `leaving` that it ends soon and gets nothing new, and `home` is a
    number that all gateways know it by.
    """

    @property
    def full(self) -> bool: ...
    @property
    def leaving(self) -> bool: ...
    @property
    def home(self) -> int: ...
    @property
    def health(self) -> Health: ...
    @property
    def warming(self) -> Warming: ...
    @property
    def load(self) -> ReplicaLoad: ...
    @property
    def prefixes(self) -> PrefixLru: ...


Replica = TypeVar("Replica", bound=Candidate)


def usable(replicas: Sequence[Replica], now_s: float, rule: Ejection = EJECTION) -> list[Replica]:
    """The replicas that are neither down nor leaving, without the ejected ones. A request that has chosen its pool before
    all its replicas were leaving still gets one of these.

    As in Envoy (docs/root/intro/arch_overview/upstream/load_balancing/panic_threshold.rst), a tenth of the replicas may be
    ejected, but always one: those whose ejection lasts longest. While fewer than half of all are left, none is.

    Where none would be left, each that is kept out may have one call at a time, by which it is found out whether it serves: no
    evidence takes the last replica away without trials. One that says itself that it does not serve is not tried.
    """
    up = [replica for replica in replicas if replica.health.state != "down"]
    there = [replica for replica in up if not replica.leaving] or up
    if not there:
        away = [replica for replica in replicas if not (replica.health.unfit or replica.load.own)]
        return [replica for replica in away if not replica.leaving]
    out = [replica for replica in there if _kept_out(replica, now_s)]
    if not out:
        return there
    most = max(1, rule.most_percent * len(replicas) // 100)
    if len(out) > most:
        out = sorted(out, key=lambda replica: -replica.health.ejected_until_s)[:most]
    left = [replica for replica in there if not any(replica is other for other in out)]
    if 100 * len(left) < rule.panic_percent * len(replicas):
        return there
    return left or [replica for replica in out if not replica.load.own]


def places(most: int, each: int, replicas: Sequence[Candidate], now_s: float, rule: Ejection = EJECTION) -> int:
    """How many requests a pool takes at a time: `most`, and not more than `each` (0 is no limit) for each replica that is up and
    usable; one that warms up gives places only where no other does. Those on replicas that are leaving take nobody's place. Where
    no replica is up nothing is held back, so that each request is answered what is wrong.
    """
    if not each:
        return most
    up = [replica for replica in usable(replicas, now_s, rule) if replica.health.state == "up"]
    number = sum(not replica.warming.kept_back for replica in up) or len(up)
    leaving = sum(replica.load.own for replica in replicas if replica.leaving)
    return min(most, number * each + leaving) if up else most


def _kept_out(replica: Candidate, now_s: float) -> bool:
    health = replica.health
    return health.ejected(now_s) or (health.on_trial(now_s) and replica.load.own > 0)
