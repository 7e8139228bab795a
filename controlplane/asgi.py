"""The web process: HTTP to Django, web sockets to the dashboard's and the lane's consumers. Granian serves it as ASGI without lifespan."""

import os
from typing import Any

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
django_application = get_asgi_application()  # first: the imports below need the apps

from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from django.conf import settings  # noqa: E402

from controlplane.accounts.sockets import guarded  # noqa: E402
from controlplane.config.connections import connections_of  # noqa: E402
from controlplane.dashboard.routing import websocket_urlpatterns  # noqa: E402
from controlplane.fleet import serve_snapshot, serve_targets  # noqa: E402
from controlplane.lane import sockets  # noqa: E402
from controlplane.observability import tracing  # noqa: E402
from inference.contract.tls.clear_text import warn  # noqa: E402

tracing.configure("weir-web", settings.CONFIG)
warn(connections_of(settings.CONFIG))

# For processes of Weir elsewhere: they have tokens of their own, and no session.
BESIDE_DJANGO: dict[str, Any] = {
    serve_snapshot.PATH: serve_snapshot.SnapshotApplication(),
    serve_targets.PATH: serve_targets.application,
}


async def http(scope: Any, receive: Any, send: Any) -> None:
    await BESIDE_DJANGO.get(scope["path"], django_application)(scope, receive, send)


of_people = guarded(URLRouter(websocket_urlpatterns))


async def websocket(scope: Any, receive: Any, send: Any) -> None:
    """Those of tenants carry a key, and no session."""
    socket = sockets.application if scope["path"].startswith(sockets.PREFIX) else of_people
    await socket(scope, receive, send)


application = ProtocolTypeRouter({"http": http, "websocket": websocket})
