"""The page of connections: which are encrypted, and which are in the clear."""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from controlplane.accounts import rights
from controlplane.accounts.core.actions import ADMINISTER
from controlplane.config.connections import connections_of
from controlplane.fleet.models import Replica
from inference.contract.tls.clear_text import Connection, connection


class Servers(NamedTuple):
    """Model servers of a pool that are called in the same way. `call` is to one of them."""

    call: Connection
    servers: int


@require_safe
def connections(request: HttpRequest) -> HttpResponse:
    rights.require(request.user, ADMINISTER)
    rows = [*connections_of(settings.CONFIG)]
    servers = grouped(map(_call, Replica.objects.select_related("pool").order_by("pool__name", "name")))
    clear = sum(each.in_the_clear for each in rows) + sum(each.call.in_the_clear for each in servers)
    return render(request, "dashboard/connections.html", {"rows": rows, "servers": servers, "clear": clear})


def grouped(calls: Iterable[Connection]) -> list[Servers]:
    """One for each pool and way; a connection's `to` is its pool."""
    ways: dict[tuple[str, bool, bool], list[Connection]] = defaultdict(list)
    for call in calls:
        ways[call.to, call.encrypted, call.local].append(call)
    return [Servers(calls[0], len(calls)) for calls in ways.values()]


def _call(replica: Replica) -> Connection:
    """As the gateway calls it: its URL, or gRPC with the pool's switch."""
    scheme = "grpcs" if replica.pool.tls_enabled else "grpc"
    return connection(replica.pool.name, replica.url or f"{scheme}://{replica.grpc}")
