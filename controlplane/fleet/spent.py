"""What keys have cost, as gateways count it in Redis."""

import time
from collections.abc import Sequence
from typing import get_args

from django.conf import settings
from redis import Redis, RedisError

from controlplane.fleet.models import GatewayKey
from inference.contract.metering.spending import MICRO, Budget, key_prefix, period_of

REDIS_TIMEOUT_S = 1.0
EACH_BUDGET: tuple[Budget, ...] = get_args(Budget)


def spent_usd(keys: Sequence[GatewayKey]) -> list[dict[Budget, float] | None]:
    """What the requests of each have cost in the present day and month, as gateways count it. None where Redis does not say."""
    now_s = time.time()
    try:
        with Redis.from_url(
            settings.CONFIG.redis_url, socket_timeout=REDIS_TIMEOUT_S, socket_connect_timeout=REDIS_TIMEOUT_S
        ) as redis:
            commands = redis.pipeline(transaction=False)
            for key in keys:
                prefix = key_prefix(key.tenant.name, key.sha256)
                for each in EACH_BUDGET:
                    commands.hget(prefix + each, period_of(each, now_s).name)
            counts = iter(commands.execute(raise_on_error=False))
    except (RedisError, OSError):
        return [None] * len(keys)
    return [_spent([next(counts) for _ in EACH_BUDGET]) for _ in keys]


def _spent(counts: Sequence[bytes | RedisError | None]) -> dict[Budget, float] | None:
    spent: dict[Budget, float] = {}
    for budget, count in zip(EACH_BUDGET, counts, strict=True):
        if isinstance(count, RedisError):
            return None
        spent[budget] = int(count or 0) / MICRO
    return spent
