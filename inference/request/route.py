"""Finds the model and the pool that serve a request."""

import random

from inference.backends.fleet import PoolState
from inference.core.cache_key import draw
from inference.core.normalise import Question
from inference.core.openai import errors
from inference.core.routing import choose_route
from inference.core.snapshot import Model
from inference.policy.serving import Served, Serving


def find_model(serving: Serving, name: str) -> Served:
    """The model that a client asks for. Raises ApiError."""
    served = serving.models.get(name)
    if served is None:
        raise errors.refused_model(name) if serving.refused(name) else errors.no_such_model(name)
    return served


def choose_pool(serving: Serving, model: Model, question: Question, cacheable: bool) -> PoolState:
    """One of the model's pools, by weight. A cacheable question always gets the same one, so that it meets its answer."""
    number = draw(question) if cacheable and len(model.routes) > 1 else random.random()  # noqa: S311  (no secret)
    route = choose_route(model.routes, lambda pool: serving.pools[pool].available, number)
    return serving.pools[route.pool]
