"""The process is killed after each write of an action, one after the other: the next leader leaves one record and one outcome."""

from controlplane.fleet.clusters.port import PoolBinding
from tests.bench.figures import say
from tests.support.cluster.killed import outcome_of
from tests.support.cluster.proxy import Proxy
from tests.support.cluster.rehearsed import Counts, RealWorld
from tests.support.policy.world import POOL

LOW, HIGH = 2, 5


def between_all_steps(world: RealWorld, proxy: Proxy, counts: Counts) -> tuple[int, int]:
    """At how many points it was killed, and how many of them left anything else than one change."""
    from controlplane.policy.models import PolicyRevision

    PolicyRevision.objects.exclude(name=POOL).update(state="retired")
    world.real.bind([PoolBinding(POOL, POOL, "openai")])  # a leader claims each pool, and this is about one
    going = {HIGH: True, LOW: True}
    passed, bad, kill_at = 0, 0, 0
    while any(going.values()):
        kill_at += 1
        for target in (HIGH, LOW):
            point, wrong = outcome_of(world, proxy, counts, POOL, target, kill_at, journal_too=True)
            going[target] = going[target] and bool(point)
            passed, bad = passed + bool(point), bad + bool(wrong)
            say(
                f"killed on the way to {target} after {point or 'nothing'}: {'; '.join(wrong) or 'one record, one outcome'}"
            )
    return passed, bad
