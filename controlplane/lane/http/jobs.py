"""`/v1/jobs`, and `/v1/responses` in the background: the same, in two forms."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from aiohttp import web
from yarl import URL

from controlplane.incidents.notify.delivery.core.outbound_address import Allowed, BlockedError, check_url
from controlplane.lane.backlog import Estimates
from controlplane.lane.core import items
from controlplane.lane.core.jobs import NewJob, new_job, new_response
from controlplane.lane.core.lines import RefusedError
from controlplane.lane.core.states import JOB, RESPONSE
from controlplane.lane.create_job import make
from controlplane.lane.http import forms
from controlplane.lane.http.edge import caller, choice, expected_end, json, listing, number
from controlplane.lane.http.streams import follow
from controlplane.lane.objects.port import Objects
from controlplane.lane.store import jobs
from controlplane.lane.store.callbacks import NOT_PUBLIC
from controlplane.lane.store.jobs import Standing
from controlplane.lane.streams import Pulse
from controlplane.lane.threads import in_thread

_MAX_JOBS, _JOBS = 100, 20
MAX_EVENT = 10**9


class Form(NamedTuple):
    kind: str
    url: str
    parse: Callable[[bytes], NewJob]
    show: Callable[[Standing], dict[str, Any]]


_FORMS = (Form(RESPONSE, "/v1/responses", new_response, jobs.response), Form(JOB, "/v1/jobs", new_job, forms.job))


class JobRoutes:
    """`wake` is called when a line may begin or has to end. `allow` says where webhooks may go beside public addresses."""

    def __init__(
        self, objects: Objects, wake: Callable[[], None], allow: Allowed, pulse: Pulse, estimates: Estimates
    ) -> None:
        self._objects, self._wake, self._allow, self._pulse = objects, wake, allow, pulse
        self._estimates = estimates

    def all(self) -> list[web.RouteDef]:
        routes = [
            web.get("/v1/jobs", self.list_jobs),
            web.get("/v1/responses/{id}/input_items", self.input_items),
        ]
        for form in _FORMS:
            routes += [
                web.post(form.url, partial(self.create, form)),
                web.get(f"{form.url}/{{id}}", partial(self.read, form)),
                web.post(f"{form.url}/{{id}}/cancel", partial(self.cancel, form)),
                web.delete(f"{form.url}/{{id}}", partial(self.delete, form)),
            ]
        return routes

    async def create(self, form: Form, request: web.Request) -> web.StreamResponse:
        who, body = caller(request), await request.read()
        wanted = form.parse(body)
        if wanted.callback_url:
            _check_callback(wanted.callback_url, self._allow)

        def made() -> tuple[Standing, float | None, str]:
            it, secret = make(who, wanted, body, self._objects, self._estimates)
            return (*self._estimated(it), secret)

        standing, end_s, secret = await in_thread(made)
        self._wake()
        if wanted.streams:
            return await follow(request, who.tenant, standing.row.name, self._objects, self._pulse, -1)
        return _shown(form, standing, end_s, secret)

    def _estimated(self, standing: Standing) -> tuple[Standing, float | None]:
        return standing, self._estimates.end_s(standing.row)

    async def list_jobs(self, request: web.Request) -> web.Response:
        return await listing(request, _JOBS, _MAX_JOBS, jobs.listed, forms.job_of_list)

    async def input_items(self, request: web.Request) -> web.Response:
        tenant, name = _named(request)
        limit, order = number(request, "limit", _JOBS, _MAX_JOBS), choice(request, "order", ("desc", "asc"))
        given = (await in_thread(lambda: jobs.read(tenant, name, RESPONSE, self._objects))).request
        after = request.query.get("after", "")
        rows, has_more = items.page(items.items(name, given), after, limit, falling=order == "desc")
        return json(forms.listing(rows, has_more))

    async def read(self, form: Form, request: web.Request) -> web.StreamResponse:
        tenant, name = _named(request)
        if form.kind == RESPONSE and choice(request, "stream", ("false", "true")) == "true":
            after = number(request, "starting_after", 0, MAX_EVENT, 0) if "starting_after" in request.query else -1
            return await follow(request, tenant, name, self._objects, self._pulse, after)
        read = partial(jobs.read, tenant, name, form.kind, self._objects)
        return _shown(form, *await in_thread(lambda: self._estimated(read())))

    async def cancel(self, form: Form, request: web.Request) -> web.Response:
        tenant, name = _named(request)
        standing = await in_thread(lambda: jobs.cancel(tenant, name, form.kind, self._objects))
        self._wake()
        self._pulse.beat()
        return json(form.show(standing))

    async def delete(self, form: Form, request: web.Request) -> web.Response:
        tenant, name = _named(request)
        await in_thread(lambda: jobs.delete(tenant, name, form.kind, self._objects))
        self._wake()
        return json({"id": name, "object": form.kind, "deleted": True})


def _shown(form: Form, standing: Standing, end_s: float | None, secret: str = "") -> web.Response:
    shown = form.show(standing)
    if form.kind == JOB:
        shown["expected_end_at"] = None if end_s is None else round(end_s)
    if secret:
        shown["callback"]["secret"] = secret
    return json(shown, 200, **expected_end(standing.row, end_s))


def _named(request: web.Request) -> tuple[str, str]:
    return caller(request).tenant, request.match_info["id"]


def _check_callback(url: str, allow: Allowed) -> None:
    """What its name resolves to is checked when it is sent. Raises RefusedError."""
    try:
        target = URL(url)
        has_user = target.raw_user is not None or target.raw_password is not None
        check_url(target.scheme, target.raw_host or "", has_user, allow)
    except BlockedError:
        message = f"`callback.url` is refused: {NOT_PUBLIC}, or it has a user or password."
        raise RefusedError(message, "callback.url") from None
    except ValueError:
        raise RefusedError("`callback.url` is no URL: use https://host/path.", "callback.url") from None
