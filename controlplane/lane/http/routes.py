"""`/v1/files` and `/v1/batches`."""

import asyncio
from collections.abc import Callable
from functools import partial

from aiohttp import BodyPartReader, web
from aiohttp.http_exceptions import HttpProcessingError

from controlplane.lane.backlog import Estimates
from controlplane.lane.core import lines
from controlplane.lane.core.lines import RefusedError
from controlplane.lane.http import forms
from controlplane.lane.http.edge import caller, choice, expected_end, json, listing
from controlplane.lane.http.streams import cut_off
from controlplane.lane.models import Batch, StoredFile
from controlplane.lane.objects.port import Draft, Objects
from controlplane.lane.store import batches, files, limits
from controlplane.lane.store.idempotency import digest, once
from controlplane.lane.threads import in_thread
from inference.contract.lane import MAX_UPLOAD_BYTES

MAX_BODY_BYTES = lines.MAX_LINE_BYTES
_CHUNK_BYTES = 1 << 20
_MAX_FIELD_BYTES = 1 << 10
_BEGIN_BYTES = 1 << 20
_MAX_FILES, _MAX_BATCHES, _BATCHES = 10_000, 100, 20


class Routes:
    """`wake` is called when a batch was made or cancelled."""

    def __init__(self, objects: Objects, wake: Callable[[], None], estimates: Estimates) -> None:
        self._objects, self._wake, self._estimates = objects, wake, estimates

    def all(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/files", self.upload),
            web.get("/v1/files", self.list_files),
            web.get("/v1/files/{id}", self.file),
            web.get("/v1/files/{id}/content", self.content),
            web.delete("/v1/files/{id}", self.delete),
            web.post("/v1/batches", self.create),
            web.get("/v1/batches", self.list_batches),
            web.get("/v1/batches/{id}", self.batch),
            web.post("/v1/batches/{id}/cancel", self.cancel),
        ]

    # Files ----------------------------------------------------------------------------------------

    async def upload(self, request: web.Request) -> web.Response:
        tenant, _, key = caller(request)
        if not request.content_type.startswith("multipart/"):
            raise RefusedError("Send the file as multipart/form-data.", "file")
        with self._objects.draft() as draft:
            fields, filename = await _read_form(request, draft)
            purpose = fields.get("purpose", "")
            if purpose not in files.PURPOSES:
                raise RefusedError(f"`purpose` must be one of {', '.join(files.PURPOSES)}.", "purpose")
            expiry_s = _expiry_s(fields)
            if filename is None:
                raise RefusedError("The form has no file: send one as `file`.", "file")
            if not draft.size:
                raise RefusedError("The file is empty.", "file")

            def place() -> str:
                limits.check_bytes(limits.of(tenant), tenant, draft.size)
                return files.create(files.new_file_id(), tenant, purpose, filename, draft, expiry_s).pk

            def stored() -> StoredFile:
                draft.synchronise()
                said = f"{purpose}:{filename}:{expiry_s}:{draft.sha256}"
                return files.get(tenant, once(tenant, key, digest(said.encode()), place))

            row = await in_thread(stored)
        return json(forms.file(row))

    async def list_files(self, request: web.Request) -> web.Response:
        order, purpose = choice(request, "order", ("desc", "asc")), request.query.get("purpose", "")
        find = partial(files.listed, order=order, purpose=purpose)
        return await listing(request, _MAX_FILES, _MAX_FILES, find, forms.file)

    async def file(self, request: web.Request) -> web.Response:
        return json(forms.file(await self._file(request)))

    async def content(self, request: web.Request) -> web.StreamResponse:
        row = await self._file(request)
        parts = self._objects.parts(row.object)
        data = await in_thread(lambda: next(parts, b""))
        out = web.StreamResponse(headers={"content-type": "application/octet-stream"})
        out.content_length = row.bytes
        await out.prepare(request)
        with cut_off(request):
            while data:
                await out.write(data)
                data = await in_thread(lambda: next(parts, b""))
            await out.write_eof()
        return out

    async def delete(self, request: web.Request) -> web.Response:
        tenant, file_id = caller(request).tenant, request.match_info["id"]
        await in_thread(lambda: files.delete(tenant, file_id, self._objects))
        return json({"id": file_id, "object": "file", "deleted": True})

    async def _file(self, request: web.Request) -> StoredFile:
        tenant, file_id = caller(request).tenant, request.match_info["id"]
        return await in_thread(lambda: files.get(tenant, file_id))

    # Batches --------------------------------------------------------------------------------------

    async def create(self, request: web.Request) -> web.Response:
        who, body = caller(request), await request.read()
        wanted = lines.new_batch(body)

        end_s: float | None = None

        def make() -> str:
            nonlocal end_s
            file = batches.input_of(who.tenant, wanted)
            end_s = self._estimates.admit(self._model_of(file), file.lines, lines.WINDOW_S[wanted.completion_window])
            return batches.create(who.tenant, who.key_sha256, wanted).name

        row = await in_thread(lambda: batches.get(who.tenant, once(who.tenant, who.once, digest(body), make)))
        self._wake()
        return _batch(row, end_s)

    def _model_of(self, file: StoredFile) -> str:
        """Of its first line, if that is found at its beginning."""
        begin = self._objects.read(file.object, 0, min(file.bytes, _BEGIN_BYTES))
        return lines.model_of(begin.partition(b"\n")[0])

    async def list_batches(self, request: web.Request) -> web.Response:
        return await listing(request, _BATCHES, _MAX_BATCHES, batches.listed, forms.batch)

    async def batch(self, request: web.Request) -> web.Response:
        return await self._of_batch(request, batches.get)

    async def cancel(self, request: web.Request) -> web.Response:
        answer = await self._of_batch(request, batches.cancel)
        self._wake()
        return answer

    async def _of_batch(self, request: web.Request, call: Callable[[str, str], Batch]) -> web.Response:
        tenant, name = caller(request).tenant, request.match_info["id"]

        def estimated() -> tuple[Batch, float | None]:
            row = call(tenant, name)
            return row, self._estimates.end_s(row)

        return _batch(*await in_thread(estimated))


def _batch(row: Batch, end_s: float | None) -> web.Response:
    return json(forms.batch(row), 200, **expected_end(row, end_s))


async def _read_form(request: web.Request, draft: Draft) -> tuple[dict[str, str], str | None]:
    """The fields, and the file's name. Its bytes go to the draft as they come. Raises RefusedError."""
    fields: dict[str, str] = {}
    filename: str | None = None
    try:
        async for part in await request.multipart():
            if not isinstance(part, BodyPartReader):
                raise RefusedError("The form has a part that is a form itself.", "file")
            if part.name == "file":
                if filename is not None:
                    raise RefusedError("The form has two files: send one.", "file")
                filename = _text(part.filename or "file")
                while data := await part.read_chunk(_CHUNK_BYTES):
                    if draft.size + len(data) > MAX_UPLOAD_BYTES:
                        raise RefusedError(f"A file has at most {MAX_UPLOAD_BYTES} bytes.", "file")
                    await asyncio.to_thread(draft.write, data)
            else:
                name, value = _text(part.name or ""), b""
                while data := await part.read_chunk(_MAX_FIELD_BYTES):  # it may come in parts
                    value += data
                    if len(value) > _MAX_FIELD_BYTES:
                        raise RefusedError(f"`{name}` is too long.", name)
                fields[name] = value.decode("utf-8", "replace")
    except (ValueError, HttpProcessingError) as error:
        if isinstance(error, RefusedError):
            raise
        raise RefusedError(f"The form cannot be read: {error}", "file") from None
    return fields, filename


def _text(name: str) -> str:
    """Of a header of a part, which aiohttp takes as it came: bytes that are no UTF-8 are replaced."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _expiry_s(fields: dict[str, str]) -> int | None:
    """Raises RefusedError."""
    anchor, seconds = fields.get("expires_after[anchor]"), fields.get("expires_after[seconds]")
    if anchor is None and seconds is None:
        return None
    if seconds is None or not (seconds.isascii() and seconds.isdigit()):
        raise RefusedError("`expires_after.seconds` must be a whole number.", "expires_after.seconds")
    return lines.expiry_s(anchor or "", int(seconds), "expires_after")
