"""`/v1/jobs/events` and its kin: how a tenant's batches and jobs come to stand, as server-sent events."""

from functools import partial

from aiohttp import web

from controlplane.lane.feed import ALL_URL, POLL_S, URLS, Reader, Readers
from controlplane.lane.http.edge import caller
from controlplane.lane.http.streams import relay
from controlplane.lane.streams import Pulse
from controlplane.lane.threads import in_thread


class Feeds:
    def __init__(self) -> None:
        self._stops, self._stopping = Pulse(), False
        self._readers = Readers()

    def stop(self) -> None:
        """All who read are told to come again."""
        self._stopping = True
        self._stops.beat()

    def all(self) -> list[web.RouteDef]:
        of_one = [web.get(f"{url}/{{id}}/events", partial(self.serve, kind)) for kind, url in URLS.items()]
        return [web.get(ALL_URL, partial(self.serve, "")), *of_one]

    async def serve(self, kind: str, request: web.Request) -> web.StreamResponse:
        """Of what the URL names, or of all that is the tenant's. Raises NotThereError, RefusedError, FullError."""
        tenant, name = caller(request).tenant, request.match_info.get("id", "")
        with self._readers.another(tenant):
            after = request.headers.get("last-event-id", "")
            reader = await in_thread(lambda: Reader(tenant, kind, name, after))

            def read() -> tuple[bytes, bool]:
                events, ended = reader.read(stops=self._stopping)
                return b"".join(event.to_stream() for event in events), ended

            return await relay(request, self._stops, POLL_S, read, lambda: reader.idle().to_stream())
