"""Batches in the database and the folder of a test, and a worker without a gateway."""

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from controlplane.lane.core import jobs as core_jobs
from controlplane.lane.core import lines, results, states
from controlplane.lane.core.jobs import SOONEST
from controlplane.lane.core.results import Usage
from controlplane.lane.models import Batch, Callback, CallbackSecret, StoredFile
from controlplane.lane.objects.port import Objects
from controlplane.lane.store import batches, chores, claims, events, files, jobs
from controlplane.lane.store.claims import Claimed, Result
from tests.support.lane.process import a_line, jsonl

TENANT, KEY = "alice", "0" * 64


def upload(objects: Objects, text: bytes, tenant: str = TENANT, purpose: str = "batch") -> str:
    with objects.draft() as draft:
        draft.write(text)
        draft.synchronise()
        return files.create(files.new_file_id(), tenant, purpose, "in.jsonl", draft, None).pk


def new_batch(objects: Objects, text: bytes, tenant: str = TENANT) -> Batch:
    wanted = lines.NewBatch(upload(objects, text, tenant), "/v1/chat/completions", "24h")
    return batches.create(tenant, KEY, wanted)


def begun(objects: Objects, number: int, tenant: str = TENANT) -> Batch:
    """A batch of so many lines, of which none has run."""
    batch = new_batch(objects, jsonl(a_line(f"{it}", f"text {it}") for it in range(1, number + 1)), tenant)
    do_chores(objects)
    batch.refresh_from_db()
    return batch


def new_job(
    objects: Objects,
    tenant: str = TENANT,
    window: str = SOONEST,
    *,
    stream: bool = False,
    callback_url: str = "https://example.com/hook",
) -> Batch:
    """A response in the background, whose text is that of the first line of a batch."""
    body = {**a_line("1", "text 1")["body"], "background_options": {"completion_window": window}, "stream": stream}
    wanted = core_jobs.new_response(json.dumps(body).encode())._replace(callback_url=callback_url)
    CallbackSecret.objects.get_or_create(tenant=tenant)
    with objects.draft() as draft:
        draft.write(wanted.text)
        draft.synchronise()
        return jobs.create(tenant, KEY, wanted, draft).it.row


def do_chores(objects: Objects) -> None:
    while (chore := chores.next_chore()) is not None:
        chores.do(chore, objects)


def answer(
    objects: Objects,
    worker: int,
    claimed: Iterable[Claimed],
    status: int = 200,
    events_bytes: int = 0,
    ends_as: str = "",
    *,
    says_tokens: bool = True,
) -> int:
    """Answer each line with its own text, as the gateway would, and commit. Returns how many counted."""
    given = []
    ok = status == 200
    for line in claimed:
        request = lines.decode(objects.read(line.input_object, line.offset, line.length))
        text = results.answered(line.batch_name, line.number, request.custom_id, status, "", bytes(request.body))
        segment, offset = objects.append(line.batch, worker, text)
        usage = Usage(1, 0, 1, 0) if ok and says_tokens else Usage()
        verdict: states.Verdict = "done" if ok else "refused"
        given.append(Result(line, verdict, status, "", segment, offset, len(text), usage, events_bytes, ends_as))
    return claims.commit(given)


EVENTS = b"event: a\ndata: 1\n\nevent: b\ndata: 2\n\n"


def write_events(objects: Objects, line: Claimed, data: bytes = EVENTS) -> None:
    """As a worker does while they come."""
    objects.write_events(line.batch, line.attempt, 0, data)
    claims.extend([(line.line, line.attempt, len(data))])


def read(objects: Objects, file_id: str) -> list[dict[str, Any]]:
    if not file_id:
        return []
    text = b"".join(objects.parts(StoredFile.objects.get(pk=file_id).object))
    return [json.loads(line) for line in text.splitlines()]


def check_ended(objects: Objects, batch: Batch) -> Counter[str]:
    """Each line has exactly one result, and counts, files and usage agree. Returns how many errors there are by their codes."""
    batch.refresh_from_db()
    if batch.kind != states.BATCH:
        return _check_job(objects, batch)
    output, errors = read(objects, batch.output_file_id), read(objects, batch.error_file_id)
    numbers = sorted(int(it["custom_id"]) for it in output + errors)
    assert numbers == list(range(1, batch.total + 1))
    assert (len(output), len(errors)) == (batch.completed, batch.failed)
    assert (batch.input_tokens, batch.output_tokens) == (batch.completed, batch.completed)
    assert all(it["response"]["body"]["messages"][0]["content"] == f"text {it['custom_id']}" for it in output)
    return Counter(it["error"]["code"] for it in errors)


def _check_job(objects: Objects, job: Batch) -> Counter[str]:
    """The same of a job: its result is that of its line, or the code of its error."""
    it = jobs.read(job.tenant, job.name, job.kind, objects)
    done = it.line.state == states.DONE
    assert (job.completed, job.failed, job.input_tokens) == (done, not done, done)
    assert (it.line.worker, it.line.attempt, job.kept_until is not None) == (None, None, True)
    if job.streams:
        given = events.after(job.tenant, job.name, objects, events.BEGIN)
        assert given.ended and b"".join(given.events[2:]) == EVENTS
    assert it.callback is not None and it.callback.state == Callback.State.PENDING
    if done:
        status, said = it.answer
        assert (status, json.loads(bytes(said))) == (200, it.request)
        assert (it.request["messages"][0]["content"], it.status) == ("text 1", "completed")
    return Counter([] if done else [it.line.code])
