"""Which batches the free places of a worker are for."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

URGENT_S = 3_600.0
"""A batch whose deadline is nearer than this goes before all that are not, whoever's it is."""


class Candidate(NamedTuple):
    batch: int
    tenant: str
    left_s: float  # until its deadline


def shares(candidates: Sequence[Candidate], running: Mapping[str, int], places: int) -> dict[int, int]:
    """How many lines of each batch to take for `places`, as if each had enough, in the order in which to take them.

    Urgent batches come first, by deadline. Each other place goes to the tenant with the fewest lines in flight (`running`), for
    that batch of it whose deadline is nearest.
    """
    ordered = sorted(candidates, key=lambda it: (it.left_s, it.batch))
    urgent = [it for it in ordered if it.left_s < URGENT_S]
    if urgent:
        return {urgent[0].batch: places}
    first: dict[str, Candidate] = {}
    for candidate in ordered:
        first.setdefault(candidate.tenant, candidate)
    taken = {tenant: running.get(tenant, 0) for tenant in first}
    out: dict[int, int] = {}
    for _ in range(places if first else 0):
        tenant = min(taken, key=lambda it: (taken[it], first[it].left_s, it))
        taken[tenant] += 1
        batch = first[tenant].batch
        out[batch] = out.get(batch, 0) + 1
    return out
