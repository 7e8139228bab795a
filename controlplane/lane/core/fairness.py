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
    lines: int | None = None  # that it has at most, where that is known


def shares(
    candidates: Sequence[Candidate], running: Mapping[str, int], places: int, urgent_s: float = URGENT_S
) -> Mapping[int, int]:
    """How many lines of each batch to take for `places`, as if each had enough unless it says how many, in the order in which to take them.

    Urgent batches come first, by deadline. Each other place goes to the tenant with the fewest lines in flight (`running`), for
    that batch of it whose deadline is nearest.
    """
    ordered = sorted(candidates, key=lambda it: (it.left_s, it.batch))
    out: Counter[int] = Counter()
    for it in ordered:
        if it.left_s < urgent_s and out.total() < places:
            left = places - out.total()
            out[it.batch] = left if it.lines is None else min(it.lines, left)
    queues: defaultdict[str, deque[Candidate]] = defaultdict(deque)
    for it in ordered:
        if it.left_s >= urgent_s:
            queues[it.tenant].append(it)
    taken = {tenant: running.get(tenant, 0) for tenant in queues}
    while taken and out.total() < places:
        tenant = min(taken, key=lambda it: (taken[it], queues[it][0].left_s, it))
        taken[tenant] += 1
        first = queues[tenant][0]
        out[first.batch] += 1
        if out[first.batch] == first.lines:
            queues[tenant].popleft()
            if not queues[tenant]:
                del taken[tenant]
    return out
