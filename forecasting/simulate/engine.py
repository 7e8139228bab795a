"""The simulator itself: lets a pool of replicas work, from event to event.

A replica alternates passes, as the local models' engine does (deploy/local/models/engine.py) and vLLM does without chunked prefill:
where prompts wait and there is room they are read together, else every running sequence gets its next token. Between two
changes of the batch each step takes longer than the one before by the same time, so a run of steps is a single event, and the result is
that of going step by step. Where the KV cache is full, the running request that came last gives up its place, and what it had is
computed anew later, as in vLLM (Kwon et al. 2023, Efficient Memory Management for Large Language Model Serving with PagedAttention, 4.5).
A request goes to the ready replica with the fewest in flight, ties in rotation, as the gateway chooses (inference/core/routing/).
"""

import numpy as np

from forecasting.series import I64
from forecasting.simulate.compiled import compiled
from forecasting.simulate.due import schedule, unschedule
from forecasting.simulate.state import ABSENT, ANSWERED, DECODE, DRAINING, IDLE, PREFILL, READY, STARTING, State

_REQUEST_BITS = 32
_REQUEST_MASK = (1 << _REQUEST_BITS) - 1


@compiled
def advance(s: State, until_s: float) -> None:
    """Let the pool work until this time."""
    pool, replicas = s.pool[0], s.replicas
    while True:
        arrival_s = s.requests[pool.next_request].arrival_s if pool.next_request < len(s.requests) else np.inf
        ends_s = replicas[s.due[0]].ends_s if pool.due > 0 else np.inf
        now_s = min(arrival_s, ends_s)
        if now_s > until_s:
            break
        _pass_time(s, now_s)
        if arrival_s < ends_s:
            pool.next_request += 1
            _arrive(s, pool.next_request - 1, now_s)
            continue
        r = s.due[0]
        if replicas[r].status == STARTING:
            replicas[r].status = READY
            replicas[r].ready_place = pool.ready
            s.ready[pool.ready] = r
            pool.ready += 1
            pool.starting -= 1
        elif replicas[r].doing == PREFILL:
            _end_prefill(s, r, now_s)
        else:
            _end_decode(s, r, now_s)
        _begin(s, r, now_s)
    _pass_time(s, until_s)


@compiled
def _pass_time(s: State, now_s: float) -> None:
    """Add the time since the last event to the integrals."""
    pool = s.pool[0]
    lasted_s = now_s - pool.now_s
    pool.now_s = now_s
    pool.running_s += lasted_s * pool.running
    pool.waiting_s += lasted_s * pool.waiting
    pool.starting_s += lasted_s * pool.starting
    pool.ready_s += lasted_s * pool.ready
    pool.draining_s += lasted_s * pool.draining


@compiled
def _arrive(s: State, i: int, now_s: float) -> None:
    pool, request = s.pool[0], s.requests[i]
    pool.arrived += 1
    pool.input_tokens += request.input_tokens
    pool.output_tokens += request.output_tokens
    pool.waiting += 1
    r = _choose(s)
    if r < 0:
        request.link = -1
        if pool.queued == 0:
            pool.head = i
        else:
            s.requests[pool.tail].link = i
        pool.tail = i
        pool.queued += 1
        return
    _enqueue(s, r, i)
    replica = s.replicas[r]
    if replica.doing == IDLE:
        _begin(s, r, now_s)
    elif replica.doing == DECODE and replica.running < pool.max_sequences and replica.step_s > 0:
        steps = _steps_begun(s, r, now_s - replica.began_s)
        if steps < replica.pass_steps:  # it is read at the end of the step under way
            replica.pass_steps = steps
            schedule(s, r, replica.began_s + _steps_s(s, r, steps))


@compiled
def _steps_s(s: State, r: int, steps: int) -> float:
    """How long so many steps of the replica's pass take: each makes every context a token longer."""
    replica = s.replicas[r]
    longer_s = s.pool[0].step_token_s * replica.running
    return float(steps * replica.step_s + longer_s * steps * (steps - 1) / 2)


@compiled
def _steps_begun(s: State, r: int, passed_s: float) -> int:
    """How many steps of the replica's pass have begun after so long: the least whose end is later."""
    replica = s.replicas[r]
    longer_s = s.pool[0].step_token_s * replica.running
    if longer_s > 0:
        first_s = replica.step_s - longer_s / 2
        steps = np.int64((np.sqrt(first_s * first_s + 2 * longer_s * passed_s) - first_s) / longer_s)
    else:
        steps = np.int64(passed_s / replica.step_s)
    return int(steps + 1)


@compiled
def _choose(s: State) -> int:
    """The ready replica with the fewest in flight, or the next that may have another; -1 where none may."""
    pool = s.pool[0]
    if pool.ready == 0 or pool.queued > 0:
        return -1
    at = pool.rotation % pool.ready
    pool.rotation = at + 1
    best = s.ready[at]
    least = s.replicas[best].in_flight
    for _ in range(pool.ready):
        if least == 0:
            break
        at = at + 1 if at + 1 < pool.ready else 0
        in_flight = s.replicas[s.ready[at]].in_flight
        if in_flight < least:
            best, least = s.ready[at], in_flight
    return int(best) if _has_room(s, least) else -1


@compiled
def _enqueue(s: State, r: int, i: int) -> None:
    """Put a request into the replica's own queue."""
    replica = s.replicas[r]
    s.requests[i].link = -1
    if replica.queued == 0:
        replica.head = i
    else:
        s.requests[replica.tail].link = i
    replica.tail = i
    replica.queued += 1
    replica.in_flight += 1


@compiled
def _pull(s: State, r: int) -> bool:
    """Send requests that wait in the pool to the replica, as many as it may have in flight. Returns whether there were any."""
    pool, replica = s.pool[0], s.replicas[r]
    before = replica.in_flight
    while replica.status == READY and pool.queued > 0 and _has_room(s, replica.in_flight):
        i = pool.head
        pool.head = s.requests[i].link
        pool.queued -= 1
        _enqueue(s, r, i)
    return bool(replica.in_flight > before)


@compiled
def _has_room(s: State, in_flight: int) -> bool:
    """Whether a replica with so many in flight takes more."""
    pool = s.pool[0]
    return bool(pool.max_in_flight == 0 or in_flight < pool.max_in_flight)


@compiled
def _take_prompts(s: State, r: int, now_s: float) -> int:
    """Take waiting prompts for a prefill, as many as there is room for. Returns how many tokens they have.

    One that is alone is taken whatever its size.
    """
    pool, replica = s.pool[0], s.replicas[r]
    tokens, count = 0, 0
    while replica.queued > 0 and replica.running + count < pool.max_sequences:
        i = replica.head
        request = s.requests[i]
        context = request.input_tokens + request.output_tokens - request.left
        alone = replica.running + count == 0
        if pool.kv_tokens > 0 and not alone and replica.kv_tokens + context + 1 > pool.kv_tokens:
            break
        replica.kv_tokens += context + 1
        replica.head = request.link
        replica.queued -= 1
        pool.waiting -= 1
        if request.left == request.output_tokens:
            request.wait_s = now_s - request.arrival_s
        request.link = replica.first_read
        replica.first_read = i
        tokens += context
        count += 1
    replica.reading = count
    return int(tokens)


@compiled
def _begin(s: State, r: int, now_s: float) -> None:
    """Begin the replica's next pass: prefill, else decode, else nothing.

    The next pass has begun before what waits in the pool learns of the room, and reaches a replica that has others.
    """
    pool, replica = s.pool[0], s.replicas[r]
    tokens = 0
    if not _preempt(s, r):
        tokens = _take_prompts(s, r, now_s)
    if replica.reading == 0 and replica.running == 0 and _pull(s, r):
        tokens = _take_prompts(s, r, now_s)
    has_more = _pull(s, r)
    if replica.reading > 0:
        replica.doing = PREFILL
        pool.running += replica.reading
        schedule(s, r, now_s + pool.prefill_s + pool.prefill_token_s * tokens)
    elif replica.running > 0:
        replica.doing = DECODE
        replica.pass_steps = 1 if has_more else (s.finish[r, 0] >> _REQUEST_BITS) - replica.steps
        if pool.kv_tokens > 0:
            room = (pool.kv_tokens - replica.kv_tokens) // replica.running
            replica.pass_steps = max(1, min(replica.pass_steps, room))
        replica.began_s = now_s
        replica.step_s = pool.step_s + pool.step_sequence_s * replica.running + pool.step_token_s * replica.kv_tokens
        schedule(s, r, now_s + _steps_s(s, r, replica.pass_steps))
    else:
        replica.doing = IDLE
        unschedule(s, r)
        if replica.status == DRAINING:
            replica.status = ABSENT
            pool.draining -= 1


@compiled
def _preempt(s: State, r: int) -> bool:
    """Take back what came last, until the others have room for a token each. The last one stays whatever its size.

    Returns whether there was any: nothing is read in such a pass.
    """
    pool, replica, heap = s.pool[0], s.replicas[r], s.finish
    before = pool.preempted
    while pool.kv_tokens > 0 and replica.running > 1 and replica.kv_tokens + replica.running > pool.kv_tokens:
        at = 0
        for other in range(1, replica.running):
            if heap[r, other] & _REQUEST_MASK > heap[r, at] & _REQUEST_MASK:
                at = other
        i = heap[r, at] & _REQUEST_MASK
        request = s.requests[i]
        request.left = (heap[r, at] >> _REQUEST_BITS) - replica.steps
        replica.kv_tokens -= request.input_tokens + request.output_tokens - request.left
        replica.running -= 1
        last = heap[r, replica.running]
        if at < replica.running:
            _rise(heap, r, _sink(heap, r, at, last, replica.running), last)
        pool.running -= 1
        pool.waiting += 1
        pool.preempted += 1
        request.link = replica.head if replica.queued > 0 else -1
        if replica.queued == 0:
            replica.tail = i
        replica.head = i
        replica.queued += 1
    return bool(pool.preempted > before)


@compiled
def _rise(heap: I64, r: int, at: int, key: int) -> None:
    """Put a key where it is in order with those above it, from `at` on."""
    while at > 0 and heap[r, (at - 1) >> 1] > key:
        heap[r, at] = heap[r, (at - 1) >> 1]
        at = (at - 1) >> 1
    heap[r, at] = key


@compiled
def _sink(heap: I64, r: int, at: int, key: int, count: int) -> int:
    """Put a key where it is in order with the `count` keys below it, from `at` on. Returns where."""
    while True:
        below = 2 * at + 1
        if below >= count:
            break
        if below + 1 < count and heap[r, below + 1] < heap[r, below]:
            below += 1
        if heap[r, below] >= key:
            break
        heap[r, at] = heap[r, below]
        at = below
    heap[r, at] = key
    return at


@compiled
def _end_prefill(s: State, r: int, now_s: float) -> None:
    """The prompts that were read have their first token, and run."""
    pool, replica, heap = s.pool[0], s.replicas[r], s.finish
    i = replica.first_read
    for _ in range(replica.reading):
        request = s.requests[i]
        following = request.link
        if request.left == request.output_tokens:
            request.ttft_s = now_s - request.arrival_s
            pool.first_tokens += 1
            pool.ttft_sum_s += request.ttft_s
        if request.left <= 1:
            _answer(s, r, i, now_s)
        else:
            _rise(heap, r, replica.running, ((replica.steps + request.left - 1) << _REQUEST_BITS) | i)
            replica.running += 1
        i = following
    replica.reading = 0


@compiled
def _end_decode(s: State, r: int, now_s: float) -> None:
    """A run of decode steps has ended: those that have all their tokens are answered."""
    replica, heap = s.replicas[r], s.finish
    replica.steps += replica.pass_steps
    replica.kv_tokens += replica.pass_steps * replica.running
    while replica.running > 0 and (heap[r, 0] >> _REQUEST_BITS) <= replica.steps:
        _answer(s, r, heap[r, 0] & _REQUEST_MASK, now_s)
        replica.running -= 1
        _sink(heap, r, 0, heap[r, replica.running], replica.running)


@compiled
def _answer(s: State, r: int, i: int, now_s: float) -> None:
    """The request has its last token."""
    pool, replica, request = s.pool[0], s.replicas[r], s.requests[i]
    e2e_s = now_s - request.arrival_s
    request.e2e_s = e2e_s
    request.outcome = ANSWERED
    replica.in_flight -= 1
    replica.kv_tokens -= request.input_tokens + max(1, request.output_tokens)
    pool.running -= 1
    pool.answered += 1
    if request.output_tokens > 1:
        pool.decode_sum_s += e2e_s - request.ttft_s
        pool.decoded_tokens += request.output_tokens - 1
