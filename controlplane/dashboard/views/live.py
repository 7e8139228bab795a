"""The HTTP side of the live socket's path: a name to link to, and a word for whoever asks without upgrading."""

from django.http import HttpRequest, HttpResponse


def live(request: HttpRequest) -> HttpResponse:
    return HttpResponse(
        "This path speaks WebSocket: connect with an Upgrade header.\n", status=426, content_type="text/plain"
    )
