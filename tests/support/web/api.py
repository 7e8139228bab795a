"""Asks the REST API."""

from typing import Any

from django.test import Client


def send(client: Client, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """The answer to a document that is sent with this method."""
    return getattr(client, method)(f"/api/v1/{path}", body or {}, content_type="application/json")


def get(client: Client, path: str, **parameters: Any) -> Any:
    """What the API answers to this path under /api/v1, which it must."""
    answer = client.get(f"/api/v1/{path}", parameters)
    assert answer.status_code == 200, answer.content
    return answer.json()
