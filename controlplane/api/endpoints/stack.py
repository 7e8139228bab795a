"""`GET stack`: every process, pool and replica as it is now."""

from typing import Any

from django.http import HttpRequest
from ninja import Router

from controlplane.api.schemas.stack import StackOut
from controlplane.serving_stack import WINDOW_S, serving_stack

router = Router(tags=["stack"])


@router.get("", response=StackOut, summary="The serving stack now")
def stack(request: HttpRequest) -> dict[str, Any]:
    return {"window_s": WINDOW_S, "rows": serving_stack()}
