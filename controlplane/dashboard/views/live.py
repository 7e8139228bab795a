"""The HTTP side of the live socket's path: its URL, and an answer to requests that do not upgrade."""

from django.http import HttpRequest, HttpResponse


def live(request: HttpRequest) -> HttpResponse:
    return HttpResponse(
        "This path speaks WebSocket: connect with an Upgrade header.\n", status=426, content_type="text/plain"
    )
