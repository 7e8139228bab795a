"""The servers that have vectors."""

import pytest

from deploy.local.ports import free_port
from deploy.local.redis import redis
from tests.support.gateway.redis_nodes import with_search
from tests.support.start import Start


@pytest.fixture(scope="session")
def search_url(start_once: Start, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The session's Valkey with RediSearch."""
    like = redis(free_port(), tmp_path_factory.mktemp("search"))
    start_once(with_search(like))
    return like.url


@pytest.fixture(params=["vector sets", "RediSearch"])
def vectors_url(request: pytest.FixtureRequest, redis_url: str) -> str:
    return redis_url if request.param == "vector sets" else str(request.getfixturevalue("search_url"))
