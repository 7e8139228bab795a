from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.contrib.auth.models import AnonymousUser, User
from pytest_django import Settings

from controlplane.accounts.sockets import NOT_LOGGED_IN, LoginRequiredSocket, guarded


async def accepting(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "websocket.accept"})


async def connect(application: Any, **scope: Any) -> dict[str, Any]:
    """The first message that the application answers a connection with."""
    socket: Any = ApplicationCommunicator(  # type: ignore[no-untyped-call]
        application, {"type": "websocket", "path": "/live", "headers": [], **scope}
    )
    await socket.send_input({"type": "websocket.connect"})
    answer: dict[str, Any] = await socket.receive_output(timeout=60)
    return answer


async def test_whoever_is_logged_in_is_connected_and_an_outsider_closed_with_a_code_that_says_so() -> None:
    answer = await connect(LoginRequiredSocket(accepting), user=User(username="tom"))
    assert answer["type"] == "websocket.accept"
    answer = await connect(LoginRequiredSocket(accepting), user=AnonymousUser())
    assert (answer["type"], answer["code"]) == ("websocket.close", NOT_LOGGED_IN)


@pytest.mark.django_db  # closes connections that other tests have left in the thread that it runs in
@pytest.mark.parametrize("origin", [b"https://evil.example", b"null"])
async def test_a_page_of_another_host_cannot_open_a_socket(origin: bytes, redis_url: str, settings: Settings) -> None:
    layer = settings.CHANNEL_LAYERS["default"]
    settings.CHANNEL_LAYERS = {"default": {**layer, "CONFIG": {"hosts": [redis_url]}}}
    answer = await connect(guarded(accepting), headers=[(b"origin", origin)])
    assert answer["type"] == "websocket.close"
    assert answer.get("code") != NOT_LOGGED_IN
