import json
from functools import cache
from typing import Any

from controlplane.api.app import api


@cache
def _served() -> str:
    """It is put together once: that takes a quarter of a second."""
    return json.dumps(api.get_openapi_schema())


def api_document() -> dict[str, Any]:
    """The OpenAPI document as clients read it. Each caller has its own: some tools write into theirs."""
    document: dict[str, Any] = json.loads(_served())
    return document
