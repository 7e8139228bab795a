"""Requests to a gateway over bare sockets."""

import json
import socket

from deploy.local.ports import LOOPBACK
from tests.support.gateway.process import KEY, SMALL, Gateway, unique

AUTH = f"authorization: Bearer {KEY}\r\n"


def speak(gateway: Gateway, *pieces: bytes, until_closed: bool = True) -> bytes:
    """Send the pieces one by one. Returns everything that comes back until the gateway closes."""
    with socket.create_connection((LOOPBACK, gateway.port), timeout=120) as connection:
        for piece in pieces:
            connection.sendall(piece)
        received = b""
        while data := connection.recv(65536):
            received += data
            if not until_closed:
                break
        return received


def request(body: bytes, *headers: str, version: str = "1.1") -> bytes:
    lines = "".join(f"{header}\r\n" for header in headers)
    head = f"POST /v1/chat/completions HTTP/{version}\r\nhost: x\r\n{AUTH}{lines}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def question(**options: object) -> bytes:
    return json.dumps({"model": SMALL, "messages": unique(), "max_tokens": 2, **options}).encode()


def send(gateway: Gateway, model: str, *, stream: bool, max_tokens: int = 500, **options: object) -> socket.socket:
    """A request over a bare socket, which can be closed at any moment."""
    connection = socket.create_connection((LOOPBACK, gateway.port))
    asked = question(model=model, stream=stream, max_tokens=max_tokens, temperature=1, **options)
    connection.sendall(request(asked))
    return connection
