"""Chooses a pool by weight."""

from collections.abc import Callable, Sequence

from inference.contract.snapshot import Route


def choose_route(routes: Sequence[Route], available: Callable[[str], bool], draw: float) -> Route:
    """The route whose share of the weights contains `draw` (in [0, 1)), among those whose pool is available; among all
    routes if none is.

    While the route that `draw` falls on is available, the state of the others does not matter.
    """
    chosen = _by_weight(routes, draw)
    if chosen is not None and available(chosen.pool):
        return chosen
    rest = [route for route in routes if available(route.pool)]
    # A route of weight 0 gets no traffic while others serve. It is still better than none.
    return _by_weight(rest, draw) or (rest[0] if rest else chosen or routes[0])


def _by_weight(routes: Sequence[Route], draw: float) -> Route | None:
    left = draw * sum(route.weight for route in routes)
    for route in routes:
        left -= route.weight
        if left < 0:
            return route
    return None  # none has any
