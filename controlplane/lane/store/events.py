"""Events of streamed responses, for those who read them. Who has read an event of an attempt never reads those of another."""

from typing import NamedTuple

from controlplane.lane.core import states
from controlplane.lane.core.events import event
from controlplane.lane.core.jobs import NO_ANSWER
from controlplane.lane.core.lines import RefusedError
from controlplane.lane.models import Batch
from controlplane.lane.objects.port import Objects
from controlplane.lane.store import batches, claims, jobs


class At(NamedTuple):
    """How much was read: events, and bytes of those that came from a server."""

    number: int
    offset: int


BEGIN = At(0, 0)


class More(NamedTuple):
    events: list[bytes]
    at: At
    ended: bool


def after(tenant: str, name: str, objects: Objects, at: At) -> More:
    """The events that there are beyond `at`. Raises NotThereError, RefusedError, OSError."""
    row = batches.get(tenant, name, states.RESPONSE)
    if not row.streams:
        raise RefusedError("This response was not made with `stream`: ask for it whole.", "stream")
    line = row.lines.first()
    if line is None:
        raise batches.not_there(name, row.kind)  # it was deleted meanwhile
    out = [] if at.number else _made(jobs.read(tenant, name, states.RESPONSE, objects))
    offset = at.offset
    attempt = line.events_of if offset < line.events_bytes else None
    if attempt is not None and (line.is_read or claims.mark_read(line.pk, attempt)):
        data = objects.read_events(row.pk, attempt, offset, line.events_bytes)
        offset = line.events_bytes
        out += [part + b"\n\n" for part in data.split(b"\n\n")[:-1]]
    ended = row.status != states.IN_PROGRESS
    if ended and not (line.state == states.DONE and line.events_of is not None):
        out.append(_last(row, objects, at.number + len(out)))
    return More(out, At(at.number + len(out), offset), ended)


def _made(it: jobs.Standing) -> list[bytes]:
    response = jobs.response(it._replace(answer=NO_ANSWER), "queued")
    return [
        event(kind, number, {"response": response})
        for number, kind in enumerate(("response.created", "response.queued"))
    ]


def _last(row: Batch, objects: Objects, number: int) -> bytes:
    """Of a response whose server has not said the last word: it follows from what is stored, and so is the same each time."""
    response = jobs.response(jobs.read(row.tenant, row.name, row.kind, objects))
    return event(f"response.{response['status']}", number, {"response": response})
