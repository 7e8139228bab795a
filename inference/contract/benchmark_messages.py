"""What a benchmark of a replica and the process that sends its requests (`python -m inference.benchmark`) say to each other,
as lines of JSON. Times are seconds since the load's start.
"""

import msgspec

from inference.contract.snapshot import Pool


class Setup(msgspec.Struct, frozen=True):
    """The first line: `pool` has one endpoint. `lengths` are input and output tokens of the requests that are drawn from, `slots`
    how many are at the replica at a time (further ones wait, as in the gateway); 0 is no limit.
    """

    pool: Pool
    lengths: tuple[tuple[int, int], ...]
    slots: int = 0
    timeout_s: float = 60.0


class Alone(msgspec.Struct, frozen=True, tag=True):
    """Send so many requests, one after the other."""

    requests: int


class Load(msgspec.Struct, frozen=True, tag=True):
    """Send so many requests at random times (Poisson), whether or not earlier ones were answered. `grace_s` after the last one the
    load ends, and what is not answered then is cancelled.
    """

    requests_per_s: float
    requests: int
    grace_s: float


class Stop(msgspec.Struct, frozen=True, tag=True):
    """End the load now. Requests under way are cancelled."""


Command = Alone | Load | Stop


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """A request. None: that has not happened. Token counts are -1 where the server does not say. `busy`: the server refused it."""

    number: int
    arrived_s: float
    sent_s: float | None = None
    first_s: float | None = None
    ended_s: float | None = None
    input_tokens: int = -1
    output_tokens: int = -1
    busy: str = ""


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The replica answers."""

    kind: str
    version: str = ""


class Pulse(msgspec.Struct, frozen=True, tag=True):
    """Several times a second during a load: requests that have ended since the last one, and those that are under way."""

    now_s: float
    ended: tuple[Sample, ...]
    open: tuple[Sample, ...]


class Ended(msgspec.Struct, frozen=True, tag=True):
    """The load has ended. All its requests have been in a `Pulse`."""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The replica failed, or cannot be measured. The process ends."""

    reason: str


Report = Ready | Pulse | Ended | Failed
