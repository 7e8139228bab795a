"""Obeys the step of a ladder that is in force for a request's model and tier."""

from typing import NamedTuple

from inference.backends.fleet import PoolState
from inference.backends.port import Query
from inference.contract.plan import Plan, Step
from inference.contract.snapshot import Model
from inference.core.openai.errors import ApiError
from inference.request.parse import Request
from inference.request.route import at_most, for_pool
from inference.snapshot.serving import Serving


class Degraded(NamedTuple):
    """The pool and the question of a request, and the parameters that have no effect there. `changed` says whether any of it
    differs from what it is without the step.
    """

    state: PoolState
    question: Query
    unused: list[str]
    changed: bool


def degrade(serving: Serving, plan: Plan, step: Step, model: Model, wanted: Request, whole: Degraded) -> Degraded:
    """The request after `step`. `wanted` is what the client wanted, and `whole` what would become of it without the step. A pool
    that refuses a parameter of the request does not serve it.
    """
    state, question, unused, _ = whole
    if step.pools and state.pool.name not in step.pools:
        pools = serving.pools
        other = next((pools[name] for name in step.pools if name in pools and pools[name].available), None)
        if other is not None:
            try:
                question, unused = for_pool(wanted, model, other, plan.max_output_tokens)
                state = other
            except ApiError:
                pass
    if step.max_output_tokens:
        question = at_most(question, model, step.max_output_tokens)
    changed = state is not whole.state or question is not whole.question
    return Degraded(state, question, unused, changed)


def least(*limits: int) -> int:
    """The smallest of limits of which 0 is none."""
    return min((limit for limit in limits if limit), default=0)
