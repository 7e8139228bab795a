"""The replicas whose passes end next: a binary heap in `State.due`, for compiled code."""

from forecasting.simulate.compiled import compiled
from forecasting.simulate.state import State


@compiled
def schedule(s: State, r: int, ends_s: float) -> None:
    """The replica's pass ends at this time: put it into the heap, or move it there."""
    heap, replicas, pool = s.due, s.replicas, s.pool[0]
    replicas[r].ends_s = ends_s
    at = replicas[r].due_place
    if at < 0:
        at = pool.due
        pool.due += 1
    while at > 0:
        above = (at - 1) >> 1
        other = heap[above]
        if replicas[other].ends_s <= ends_s:
            break
        heap[at] = other
        replicas[other].due_place = at
        at = above
    while True:
        below = 2 * at + 1
        if below >= pool.due:
            break
        if below + 1 < pool.due and replicas[heap[below + 1]].ends_s < replicas[heap[below]].ends_s:
            below += 1
        other = heap[below]
        if replicas[other].ends_s >= ends_s:
            break
        heap[at] = other
        replicas[other].due_place = at
        at = below
    heap[at] = r
    replicas[r].due_place = at


@compiled
def unschedule(s: State, r: int) -> None:
    """The replica does nothing: take it out of the heap."""
    at = s.replicas[r].due_place
    if at < 0:
        return
    s.replicas[r].due_place = -1
    s.pool[0].due -= 1
    last = s.due[s.pool[0].due]
    if last != r:
        s.due[at] = last
        s.replicas[last].due_place = at
        schedule(s, last, s.replicas[last].ends_s)
