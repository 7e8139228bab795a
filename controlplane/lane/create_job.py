"""How a job or background response is made, whether it came by HTTP or out of a topic."""

from typing import NamedTuple

from controlplane.lane.backlog import Estimates
from controlplane.lane.core.jobs import SOONEST, WINDOW_S, NewJob
from controlplane.lane.objects.port import Objects
from controlplane.lane.store import jobs
from controlplane.lane.store.idempotency import digest, made_before, once
from controlplane.lane.store.jobs import Created


class Caller(NamedTuple):
    """Whose it is."""

    tenant: str
    key_sha256: str
    once: str  # what it is known by where it comes again, or nothing


def make(who: Caller, wanted: NewJob, body: bytes, objects: Objects, estimates: Estimates) -> Created:
    """Of a `body` that says what is `wanted`; what came before is made once. In a thread.

    Raises NotThereError, RefusedError, FullError, TooLateError, OtherBodyError, SealError, DatabaseError, OSError.
    """
    made: Created | None = None

    def create() -> str:
        nonlocal made
        if wanted.completion_window != SOONEST:
            estimates.admit(wanted.model, 1, WINDOW_S[wanted.completion_window])
        made = jobs.create(who.tenant, who.key_sha256, wanted, draft)
        return made.it.row.name

    name = made_before(who.tenant, who.once, digest(body))
    if not name:  # only then does it matter whether the response that it goes on from is still there
        wanted = jobs.going_on(who.tenant, wanted, objects)
        with objects.draft() as draft:
            draft.write(wanted.text)
            draft.synchronise()
            name = once(who.tenant, who.once, digest(body), create)
    return made or Created(jobs.read(who.tenant, name, wanted.kind, objects), "")
