"""A pool of replicas and its requests as arrays of records, for compiled code."""

from typing import Any, NamedTuple

import numpy as np

from forecasting.series import F64, I64
from forecasting.simulate.arrivals import Arrivals
from forecasting.simulate.profile import ReplicaProfile

Records = Any
"""A numpy array of a structured type. Compiled code reads its fields as attributes, which numpy's types do not know."""

ANSWERED = 1
"""The outcome of a request; 0 while it has none."""

ABSENT, STARTING, READY, DRAINING = 0, 1, 2, 3
"""How a replica stands."""

IDLE, PREFILL, DECODE = 0, 1, 2
"""The pass that a replica makes."""

REQUEST = np.dtype(
    [
        ("arrival_s", "f8"),
        ("input_tokens", "i4"),
        ("output_tokens", "i4"),
        ("left", "i4"),  # output tokens that are still to be computed when it is read
        ("link", "i4"),  # the next in the same list
        ("wait_s", "f4"),
        ("ttft_s", "f4"),
        ("e2e_s", "f4"),
        ("outcome", "i4"),
    ],
    align=True,
)
REPLICA = np.dtype(
    [
        *((name, "i8") for name in ("status", "doing", "running", "in_flight")),
        *((name, "i8") for name in ("queued", "head", "tail")),  # its own queue
        *((name, "i8") for name in ("reading", "first_read")),  # the prompts of a prefill
        *((name, "i8") for name in ("steps", "pass_steps")),  # decode steps ever made, and those of this pass
        ("kv_tokens", "i8"),  # in use, by what runs or is read
        *((name, "i8") for name in ("due_place", "ready_place")),
        *((name, "f8") for name in ("ends_s", "began_s", "step_s", "created_s")),
    ]
)


class Totals(NamedTuple):
    """How the pool stands, what bounds it, and what was counted until then, as Python numbers. `running_s` to `draining_s` are
    integrals over time, of requests or (from `starting_s` on) of replicas.
    """

    next_request: int
    due: int
    rotation: int
    starts: int
    ready: int
    starting: int
    draining: int
    running: int
    waiting: int
    queued: int
    head: int
    tail: int
    max_sequences: int
    max_in_flight: int
    kv_tokens: int
    preempted: int
    prefill_s: float
    prefill_token_s: float
    step_s: float
    step_sequence_s: float
    step_token_s: float
    now_s: float
    arrived: float
    input_tokens: float
    output_tokens: float
    answered: float
    first_tokens: float
    ttft_sum_s: float
    decode_sum_s: float
    decoded_tokens: float
    running_s: float
    waiting_s: float
    starting_s: float
    ready_s: float
    draining_s: float


_OF_PROFILE = (
    "max_sequences", "kv_tokens", "prefill_s", "prefill_token_s", "step_s", "step_sequence_s", "step_token_s"
)  # fmt: skip
POOL = np.dtype([(name, "i8" if kind is int else "f8") for name, kind in Totals.__annotations__.items()])
"""The same in a record."""


class State(NamedTuple):
    """The pool at a moment. `pool` has a single record; a row of `finish` is a heap of step << 32 | request."""

    requests: Records
    replicas: Records
    pool: Records
    finish: I64
    due: I64
    ready: I64
    cold_start_s: F64


def new_state(
    arrivals: Arrivals,
    profile: ReplicaProfile,
    *,
    max_replicas: int,
    cold_start_s: F64,
    max_in_flight: int = 0,
) -> State:
    """A pool without replicas at time 0. `cold_start_s` are measured cold starts, which new replicas take in turn.

    A replica has at most `max_in_flight` requests, and others wait in the pool. 0 is no limit.
    """
    requests = np.zeros(len(arrivals), dtype=REQUEST)
    for name in ("arrival_s", "input_tokens", "output_tokens"):
        requests[name] = getattr(arrivals, name)
    requests["left"] = arrivals.output_tokens
    for name in ("wait_s", "ttft_s", "e2e_s"):
        requests[name] = np.nan
    rows = 2 * max_replicas  # as many again may drain
    replicas = np.zeros(rows, dtype=REPLICA)
    replicas["due_place"] = -1
    pool = np.zeros(1, dtype=POOL)
    limits = {"max_in_flight": max_in_flight, **{name: getattr(profile, name) for name in _OF_PROFILE}}
    for name, value in limits.items():
        pool[name] = value
    finish = np.zeros((rows, profile.max_sequences), dtype=np.int64)
    return State(requests, replicas, pool, finish, np.zeros(rows, np.int64), np.zeros(rows, np.int64), cold_start_s)
