from functools import cache
from typing import Any

from controlplane.api.app import api


@cache
def api_document() -> dict[str, Any]:
    """The OpenAPI document, which is put together once: that takes a quarter of a second. Do not change it."""
    return api.get_openapi_schema()
