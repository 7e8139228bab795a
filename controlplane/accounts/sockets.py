"""Requires a login for web sockets."""

from typing import Any

from channels.auth import AuthMiddlewareStack
from channels.security.websocket import AllowedHostsOriginValidator

NOT_LOGGED_IN = 4401
"""Close code of a socket without a session. It is in the private range, and resembles HTTP's 401."""


class LoginRequiredSocket:
    """ASGI middleware below channels' AuthMiddleware. It closes sockets of users who are not logged in."""

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["user"].is_authenticated:
            await self.application(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": NOT_LOGGED_IN})


def guarded(application: Any) -> Any:
    """`application`, for logged-in users on our own pages alone."""
    return AllowedHostsOriginValidator(AuthMiddlewareStack(LoginRequiredSocket(application)))
