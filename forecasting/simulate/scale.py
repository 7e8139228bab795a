"""Creates and removes replicas of a simulated pool."""

from forecasting.simulate.compiled import compiled
from forecasting.simulate.due import schedule, unschedule
from forecasting.simulate.state import ABSENT, DRAINING, READY, STARTING, State


@compiled
def scale(s: State, wanted: int) -> int:
    """Create or remove replicas until `wanted` are starting or ready. Returns how many there are then.

    As Kubernetes does, those that are not ready go first, then the newest. A ready replica drains: it gets nothing new, and
    goes when its requests are answered. Draining replicas do not come back.
    """
    pool, replicas = s.pool[0], s.replicas
    while pool.ready + pool.starting < wanted:
        r = 0
        while r < len(replicas) and replicas[r].status != ABSENT:
            r += 1
        if r == len(replicas):  # too many still drain
            break
        replicas[r].status = STARTING
        replicas[r].created_s = pool.now_s
        pool.starting += 1
        schedule(s, r, pool.now_s + s.cold_start_s[pool.starts % len(s.cold_start_s)])
        pool.starts += 1
    while pool.ready + pool.starting > max(0, wanted):
        status = STARTING if pool.starting > 0 else READY
        newest = -1
        for r in range(len(replicas)):
            if replicas[r].status == status and (newest < 0 or replicas[r].created_s > replicas[newest].created_s):
                newest = r
        if status == STARTING:
            unschedule(s, newest)
            replicas[newest].status = ABSENT
            pool.starting -= 1
            continue
        pool.ready -= 1
        last = s.ready[pool.ready]
        s.ready[replicas[newest].ready_place] = last
        replicas[last].ready_place = replicas[newest].ready_place
        if replicas[newest].in_flight == 0:
            replicas[newest].status = ABSENT
        else:
            replicas[newest].status = DRAINING
            pool.draining += 1
    return int(pool.ready + pool.starting)
