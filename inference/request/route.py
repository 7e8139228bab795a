"""Finds the model and the pool that serve a request."""

import random
from collections.abc import Sequence

import msgspec

from inference.backends.fleet import PoolState
from inference.backends.port import Query
from inference.contract.errors import RetryableError
from inference.contract.metering.cost import price_now
from inference.contract.plan import Plan, Plans
from inference.contract.snapshot import Model, Pool
from inference.core.cache_key import draw
from inference.core.capabilities import Capabilities, fit
from inference.core.openai import errors
from inference.core.passing.request import Passed, kept_to
from inference.core.question import GENERATION
from inference.core.routing.routes import choose_route
from inference.request.parse import Request
from inference.snapshot.serving import Caller, Served, Serving


def find_model(serving: Serving, name: str, caller: Caller) -> Served:
    """The model that a client asks for. A model that its key may not use is none. Raises ApiError."""
    if not caller.may_use(name):
        raise errors.no_such_model(name)
    served = serving.models.get(name)
    if served is None:
        raise errors.refused_model(name) if serving.refused(name) else errors.no_such_model(name)
    return served


def choose_pool(serving: Serving, plan: Plan, passed: Passed, cacheable: bool) -> PoolState:
    """One of the pools of the plan's routes, by weight; while none of these has a replica, the first fallback that has. A
    cacheable question always gets the same one, so that it meets its answer. The plan leads somewhere.
    """
    pools, routes = serving.pools, plan.routes
    if not routes:
        chosen = pools[plan.fallbacks[0]]
    elif len(routes) == 1:
        chosen = pools[routes[0].pool]
    else:
        number = draw(passed.canonical) if cacheable else random.random()  # noqa: S311  (no secret)
        chosen = pools[choose_route(routes, lambda pool: pools[pool].available, number).pool]
    if not plan.fallbacks or chosen.available:
        return chosen
    return next((pools[name] for name in plan.fallbacks if name in pools and pools[name].available), chosen)


def for_pool(request: Request, model: Model, state: PoolState, most: int = 0) -> tuple[Query, list[str]]:
    """What the pool's servers get: the request as it came, or the question that it makes, without what they drop, whose names
    come along. It has the pool's limit where the client has set none, and at most `most` output tokens, or the model's, if that is 0.
    Raises ApiError for an operation or a parameter that they refuse.
    """
    capabilities = state.capabilities
    operation = request.passed.operation
    if operation not in capabilities.operations:
        raise errors.not_served(model.name, operation, capabilities.server)
    query: Query = request.passed
    dropped: list[str] = []
    unknown = state.pool.unknown_parameters
    if not state.passes:
        query, unused = fit(request.question(model, unknown), capabilities, request.passed.prompt_param)
        dropped = [*request.understood.dropped, *unused]
    elif unknown != "pass":
        query, dropped = _known(request, capabilities, refuses=unknown == "refuse")
    default = state.pool.max_output_default
    if default and not (query.names_limit if isinstance(query, Passed) else query.max_tokens is not None):
        query = _limited(query, min(default, model.max_output_tokens))
    return at_most(query, model, most or model.max_output_tokens), dropped


def _known(request: Request, capabilities: Capabilities, *, refuses: bool) -> tuple[Passed, list[str]]:
    """The request without the parameters that its servers do not list, or its API where they list none, and their names. Raises
    ApiError.
    """
    passed, endpoint = request.passed, request.endpoint
    known = capabilities.listed.get(passed.path) or endpoint.decodes | endpoint.official
    if not known:
        return passed, []  # nobody says what belongs to it
    if refuses and (unknown := next((name for name in passed.document if name not in known), None)):
        raise errors.unknown_parameter(unknown, capabilities.server)
    return kept_to(passed, known)


def check_priced(serving: Serving, plan: Plan, model: Model, pool: Pool) -> None:
    """Raises ApiError where one of the pools that may serve the request has no price: what is not known cannot be kept within a budget."""
    others = (serving.pools[name].pool for name in plan.fallbacks if name in serving.pools)
    if any(price_now(each) is None for each in (pool, *others)):
        raise errors.not_priced(model.name)


def check_regions(
    serving: Serving, served: Served, caller: Caller, pools: Sequence[PoolState], regions: frozenset[str] | None
) -> None:
    """Raises ApiError where none of `pools`, the chosen one first, can serve the request, and one elsewhere could, which may not."""
    if not caller.regions or any(pool.available for pool in pools):
        return
    if any(pool.available for pool in pools_of(serving, served.plans)):
        pools[0].tally.arrived += 1
        pools[0].tally.shed += 1
        raise errors.none_in_regions(served.model.name, caller.tenant, regions or (), RetryableError.retry_after_s)


def check_output(passed: Passed, model: Model) -> None:
    """Raises ApiError where the client asks for more output tokens than the model's owner allows."""
    if passed.operation in GENERATION:
        for name, tokens in passed.limits.items():
            if tokens > model.max_output_tokens:
                raise errors.output_limit(name, tokens, model.max_output_tokens)


def at_most(query: Query, model: Model, most: int) -> Query:
    """The same with at most so many output tokens; itself where it asks for no more."""
    wanted = model.max_output_tokens if query.max_tokens is None else query.max_tokens
    return query if wanted <= most else _limited(query, most)


def _limited(query: Query, tokens: int) -> Query:
    if query.operation not in GENERATION:
        return query
    if isinstance(query, Passed):
        return query.at_most(tokens)
    return msgspec.structs.replace(query, max_tokens=tokens)


def fallbacks_of(serving: Serving, plan: Plan, chosen: PoolState) -> tuple[PoolState, ...]:
    """The pools that come after `chosen`, in order."""
    if not plan.fallbacks:
        return ()
    names = [name for name in plan.fallbacks if name in serving.pools]
    after = names.index(chosen.pool.name) + 1 if chosen.pool.name in names else 0
    return tuple(serving.pools[name] for name in names[after:])


def pools_of(serving: Serving, plans: Plans) -> list[PoolState]:
    """The pools that serve those that no rule is about, in order."""
    plain = plans.plain
    names = (*(route.pool for route in plain.routes), *plain.fallbacks)
    return [serving.pools[name] for name in names if name in serving.pools]
