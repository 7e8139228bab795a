"""Asks the REST API."""

from typing import Any

from django.test import Client


def get(client: Client, path: str, **parameters: Any) -> Any:
    """What the API answers to this path under /api/v1, which it must."""
    answer = client.get(f"/api/v1/{path}", parameters)
    assert answer.status_code == 200, answer.content
    return answer.json()
