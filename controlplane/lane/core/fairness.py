"""Which batches the free places of a worker are for."""

from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

URGENT_S = 3_600.0
"""A batch whose deadline is nearer than this goes before all that are not, whoever's it is."""


class Candidate(NamedTuple):
    batch: int
    tenant: str
    left_s: float  # until its deadline
    model: str
    lines: int | None = None  # that it has at most, where that is known


def shares(
    candidates: Sequence[Candidate],
    running: Mapping[str, int],
    places: int,
    room: Mapping[str, int],
    urgent_s: float = URGENT_S,
) -> Mapping[int, int]:
    """How many lines of each batch to take for `places`, as if each had enough unless it says how many, in the order in which to take them.

    Urgent batches come first, by deadline. Each other place goes to the tenant with the fewest lines in flight (`running`), for
    that batch of it whose deadline is nearest. Of each model no more are taken than it has `room` for.
    """
    ordered = sorted(candidates, key=lambda it: (it.left_s, it.batch))
    room_left, out = dict(room), Counter[int]()
    queues: defaultdict[str, deque[Candidate]] = defaultdict(deque)
    for it in ordered:
        most = min(places - out.total(), room_left[it.model])
        if it.left_s >= urgent_s:
            queues[it.tenant].append(it)
        elif most > 0:
            out[it.batch] = most if it.lines is None else min(it.lines, most)
            room_left[it.model] -= out[it.batch]
    taken = {tenant: running.get(tenant, 0) for tenant in queues}
    while taken and out.total() < places:
        tenant = min(taken, key=lambda it: (taken[it], queues[it][0].left_s, it))
        first = queues[tenant][0]
        if room_left[first.model] > 0:
            taken[tenant] += 1
            room_left[first.model] -= 1
            out[first.batch] += 1
            if out[first.batch] != first.lines:
                continue
        queues[tenant].popleft()
        if not queues[tenant]:
            del taken[tenant]
    return out
