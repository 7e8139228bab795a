"""Reads long bodies while other requests go on: in a thread, one after the other, so that the event loop shares its interpreter with
one of them at most.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from inference.core.openai.errors import ApiError
from inference.core.openai.shape import check_length, check_shape
from inference.request.guard.guards import Checked, hold
from inference.request.parse import Endpoint, Request
from inference.request.route import find_model
from inference.snapshot.serving import Caller, Served, Serving
from inference.wires.http import exchange


class Read(NamedTuple):
    """A request and the model that it is for. `too_long` where its texts are that for the model: then it was read no further."""

    request: Request
    served: Served
    too_long: ApiError | None = None
    checked: Checked | None = None  # to the rules of its tenant, if that has some


_Result = TypeVar("_Result")
_SHORT_BYTES = 64 << 10
_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="long-body")


async def aside(work: Callable[[], _Result]) -> _Result:
    """Do this in the thread."""
    return await asyncio.get_running_loop().run_in_executor(_thread, work)


async def at_once_or_aside(work: Callable[[], _Result], size_bytes: int) -> _Result:
    """Do this at once where it has little to do, and else in the thread."""
    return work() if size_bytes <= _SHORT_BYTES else await aside(work)


def read_long(endpoint: Endpoint, sent: exchange.Request, serving: Serving, caller: Caller) -> Read:
    """A request, with all that takes long worked out. Raises ApiError."""
    shape = None if endpoint.is_form else check_shape(sent.body)
    request = endpoint.parse(sent.path, sent.body, sent.headers.get(b"content-type", b""))
    passed = request.passed
    served = find_model(serving, passed.model, caller)
    checked = None
    if caller.guard is not None:
        checked = hold(request, endpoint, sent.headers.get(b"content-type", b""), caller.guard.requests)
        request, passed = checked.request, checked.request.passed
    try:
        if shape is not None and passed.is_one_prompt:
            check_length(shape, served.model.max_prompt_tokens, passed.prompt_param)
    except ApiError as error:
        return Read(request, served, error)
    passed.read_through()
    return Read(request, served, checked=checked)
