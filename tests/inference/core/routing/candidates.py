"""Replicas as routing sees them."""

from dataclasses import dataclass, field

from inference.contract.server_metrics import ServerLoad
from inference.core.routing.health import Health
from inference.core.routing.load import ReplicaLoad
from inference.core.routing.need import Need
from inference.core.routing.prefix import PrefixLru
from inference.core.routing.warming import Warming


@dataclass(eq=False)
class Replica:
    """`home` is its number in tests that need none."""

    home: int = 1
    health: Health = field(default_factory=Health)
    warming: Warming = field(default_factory=Warming)
    load: ReplicaLoad = field(default_factory=ReplicaLoad)
    prefixes: PrefixLru = field(default_factory=PrefixLru)
    full: bool = False
    leaving: bool = False


def up(in_flight: int = 0, home: int = 1) -> Replica:
    replica = Replica(home)
    replica.health.answered()
    replica.load.own = in_flight
    return replica


def down() -> Replica:
    replica = Replica()
    replica.health.failed(0.0, 0.0)  # it was never up
    return replica


def eject(replica: Replica, now_s: float) -> Replica:
    while not replica.health.ejected(now_s):
        replica.health.call_failed(now_s)
    return replica


def says(replica: Replica, at_s: float, waiting: float | None, running: float | None) -> Replica:
    replica.load.sampled(ServerLoad(at_s, waiting, running), replica.load.own, replica.load.pending)
    return replica


NEED = Need(100, (), 0, 100)
