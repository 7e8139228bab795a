"""What a batch needs before its first line and after its last: its input is checked, and its files are written.

Any lane does it, by an attempt with a lease, and another does it again from the beginning if that is over. Doing it again writes the same:
lines are known by their numbers, and the ids and the bytes of files follow from the batch.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import BinaryIO, NamedTuple

from django.db import transaction
from django.db.models import Q

from controlplane.lane.core import lines, results, states
from controlplane.lane.core.lines import Check, Place
from controlplane.lane.models import Batch, Line, StoredFile
from controlplane.lane.objects.port import Draft, Objects, Segments, read_whole
from controlplane.lane.store import changes, claims, files, limits

_ROWS = 1_000  # lines that are written or read at a time
_LOCKED_EVERY_S = 5.0  # while lines are checked
_AHEAD_BYTES = 4 << 10  # in which blank lines are looked for after one

INPUT_LOST_AFTER_S = 86_400.0
"""As `RESULT_LOST_AFTER_S` of an input. Without one nothing shows that the place is there, which may be an empty folder for a while."""


class SupersededError(Exception):
    """Permanent for this attempt: the batch was cancelled, or another does it."""


class Chore(NamedTuple):
    batch: Batch
    attempt: int

    def lock(self) -> Batch:
        """The batch, which stays as it is until the transaction ends. The lease begins anew. Raises SupersededError."""
        batch = Batch.objects.select_for_update().filter(pk=self.batch.pk, chore_attempt=self.attempt).first()
        if batch is None:
            raise SupersededError(self.batch.name)
        batch.chore_until = claims.now() + claims.LEASE
        batch.save(update_fields=["chore_until"])
        return batch


def next_chore() -> Chore | None:
    """A batch that needs something, which is this process's from now on."""
    with transaction.atomic():
        at = claims.now()
        needy = Batch.objects.filter(
            Q(chore_until=None) | claims.is_past("chore_until", at, claims.LEASE),
            status__in=(states.VALIDATING, states.FINALIZING, states.CANCELLING),
        )
        batch = needy.order_by("pk").select_for_update(skip_locked=True).first() if needy.exists() else None
        if batch is None:
            return None
        batch.chore_attempt, batch.chore_until = claims.new_id(), at + claims.LEASE
        batch.save(update_fields=["chore_attempt", "chore_until"])
        return Chore(batch, batch.chore_attempt)


def do(chore: Chore, objects: Objects) -> None:
    """Raises SupersededError, OSError."""
    if chore.batch.status == states.VALIDATING:
        validate(chore, objects)
    else:
        finish(chore, objects)


def validate(chore: Chore, objects: Objects) -> None:
    check = Check(chore.batch.endpoint)
    try:
        if chore.batch.retry_of and not chore.batch.input_object:
            _write_retried(chore, objects)
        with objects.open(chore.batch.input_object) as file:
            _read(file, check, chore)
        problems = check.end() or limits.problems(chore.batch, len(check.places))
    except FileNotFoundError:
        problems = [lines.Problem("file_not_found", "The input file was deleted before it was read.")]
    if problems:
        _fail(chore, problems)
        return
    for begin in range(0, len(check.places), _ROWS):
        with transaction.atomic():
            chore.lock()
            Line.objects.bulk_create(
                (Line(batch=chore.batch, **place._asdict()) for place in check.places[begin : begin + _ROWS]),
                ignore_conflicts=True,
            )
    with transaction.atomic():
        batch, at = chore.lock(), claims.now()
        batch.status, batch.in_progress_at = states.IN_PROGRESS, at
        batch.total, batch.model = len(check.places), check.model[:200]
        batch.chore_attempt = batch.chore_until = None
        batch.save()
        changes.write(batch, at)


def _fail(chore: Chore, problems: Sequence[lines.Problem]) -> None:
    with transaction.atomic():
        batch, at = chore.lock(), claims.now()
        batch.status, batch.ended_at = states.FAILED, at
        batch.completed, batch.failed = 0, batch.total
        batch.problems = [it._asdict() for it in problems]
        batch.save()
        changes.write(batch, at)
        Line.objects.filter(batch=batch).delete()


def _write_retried(chore: Chore, objects: Objects) -> None:
    """Write the input of a batch that runs lines of another again: those of its error file. Raises FileNotFoundError."""
    batch = chore.batch
    before = Batch.objects.get(name=batch.retry_of)
    errors = StoredFile.objects.filter(pk=before.error_file_id).first()
    if errors is None:
        raise FileNotFoundError(before.error_file_id)
    with objects.open(errors.object) as file:
        failed = {results.custom_id(text) for text in file}
    with objects.draft() as draft:
        with objects.open(before.input_object) as file:
            for text in file:
                if text.strip() and lines.decode(text).custom_id in failed:
                    draft.write(text if text.endswith(b"\n") else text + b"\n")
        draft.synchronise()
        with transaction.atomic():
            chore.lock()
            name = f"{before.name}_failed.jsonl"
            batch.input_object = files.create(batch.input_file_id, batch.tenant, "batch", name, draft, None).object
            batch.save(update_fields=["input_object"])


def _read(file: BinaryIO, check: Check, chore: Chore) -> None:
    offset, number, locked_s = 0, 0, time.monotonic()
    while not check.full:
        text = file.readline(lines.MAX_LINE_BYTES + 1)
        if not text:
            break
        number += 1
        if len(text) > lines.MAX_LINE_BYTES:
            check.too_long(number)
            while text and not text.endswith(b"\n"):
                offset += len(text)
                text = file.readline(lines.MAX_LINE_BYTES)
        else:
            check.take(text.rstrip(b"\r\n"), Place(number, offset, len(text)))
        offset += len(text)
        if not text.strip():
            blank = _blank_lines(file)
            number, offset = number + blank.count(b"\n"), offset + len(blank)
        if time.monotonic() - locked_s > _LOCKED_EVERY_S:
            with transaction.atomic():
                chore.lock()
            locked_s = time.monotonic()


def _blank_lines(file: BinaryIO) -> bytes:
    """Those that come next, all at once: there may be a hundred million."""
    at = file.tell()
    ahead = file.read(_AHEAD_BYTES)
    blank = ahead[: len(ahead) - len(ahead.lstrip())]
    blank = blank[: blank.rfind(b"\n") + 1]
    file.seek(at + len(blank))
    return blank


class _Outcome(NamedTuple):
    """A line's result: where it is, or the code of its error. `kind` is empty of those in the output, else the status or the code."""

    number: int
    offset: int
    length: int
    kind: str
    code: str
    segment: int | None
    result_offset: int
    result_length: int


def finish(chore: Chore, objects: Objects) -> None:
    """Write the files, and end the batch. Its lines are not needed any more. Raises SupersededError, OSError."""
    try:
        _finish(chore, objects)
    except FileNotFoundError:
        if _ended_s(chore.batch) < INPUT_LOST_AFTER_S:
            raise
        problem = "The input file is no longer stored, so that it cannot be said which requests have no result."
        _fail(chore, [lines.Problem("file_not_found", problem)])
        objects.remove_segments(chore.batch.pk)


def _ended_s(batch: Batch) -> float:
    """For how long it has only waited for its files."""
    since = batch.cancelling_at or batch.finalizing_at
    return (claims.now() - since).total_seconds() if since is not None else 0.0


def _finish(chore: Chore, objects: Objects) -> None:
    """Which objects are its files is written while the batch is locked: an attempt that is late finds no lines any more, and what it has
    is nobody's.
    """
    batch = chore.batch
    with objects.draft() as output, objects.draft() as errors:
        with transaction.atomic():
            chore.lock()
        kinds: Counter[str] = Counter()
        for kind, text in _texts(batch, objects, chore) if batch.total else ():
            (errors if kind else output).write(text)
            kinds[kind] += 1
        output.synchronise()
        errors.synchronise()
        with transaction.atomic():
            batch = chore.lock()
            at = claims.now()
            batch.output_file_id = _placed(output, results.output_file_id(batch.name), "output", batch)
            batch.error_file_id = _placed(errors, results.error_file_id(batch.name), "error", batch)
            batch.status, batch.ended_at = batch.ends_as, at
            batch.completed = kinds.pop("", 0)
            batch.failed = batch.total - batch.completed
            batch.chore_attempt = batch.chore_until = None
            batch.errors_by_kind = dict(kinds)
            batch.save()
            changes.write(batch, at)
            Line.objects.filter(batch=batch).delete()
    objects.remove_segments(batch.pk)


def _placed(draft: Draft, file_id: str, what: str, batch: Batch) -> str:
    """The id of the file, or nothing where it would be empty."""
    if not draft.size:
        return ""
    lasts_s = batch.output_expires_after_s or limits.of(batch.tenant).retention_days * 86_400
    files.create(file_id, batch.tenant, "batch_output", f"{batch.name}_{what}.jsonl", draft, lasts_s)
    return file_id


def _outcomes(batch: int) -> Iterator[list[_Outcome]]:
    """A page at a time."""
    rows = Line.objects.filter(batch=batch).order_by("number")
    last = 0
    while True:
        page = list(
            rows.filter(number__gt=last).values_list(
                "number",
                "offset",
                "length",
                "state",
                "code",
                "segment",
                "result_offset",
                "result_length",
                "status_code",
            )[:_ROWS]
        )
        yield [
            _Outcome(number, offset, length, states.kind_of_error(state, code, status), code, segment, at, size)
            for number, offset, length, state, code, segment, at, size, status in page
        ]
        if len(page) < _ROWS:
            return
        last = page[-1][0]


def _texts(batch: Batch, objects: Objects, chore: Chore) -> Iterator[tuple[str, bytes]]:
    """The lines of both files, in the order of the input: the kind of error, which is empty for one of the output, and the text."""
    with objects.segments(batch.pk) as segments, ExitStack() as stack:
        source: BinaryIO | None = None
        for page in _outcomes(batch.pk):
            segments.fetch({it.segment for it in page if it.segment is not None})
            for it in page:
                text = _result(it, segments, batch)
                if text is not None:
                    yield it.kind, text
                    continue
                source = source or stack.enter_context(objects.open(batch.input_object))
                line = lines.decode(read_whole(source, it.offset, it.length))
                code = states.RESULT_LOST_CODE if it.segment is not None else it.code or states.LEFT_OVER[batch.ends_as]
                yield code, results.unanswered(batch.name, it.number, line.custom_id, code)
            with transaction.atomic():
                chore.lock()


def _result(it: _Outcome, segments: Segments, batch: Batch) -> bytes | None:
    """Of a line; nothing where it has none, or has lost it. Raises OSError."""
    if it.segment is None:
        return None
    try:
        return segments.read(it.segment, it.result_offset, it.result_length)
    except FileNotFoundError:
        if _ended_s(batch) < states.RESULT_LOST_AFTER_S:
            raise
        return None
