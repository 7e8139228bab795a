"""What keys have cost, as gateways count it in Redis."""

import time
from typing import cast

from django.conf import settings
from redis import Redis, RedisError

from controlplane.fleet.models import GatewayKey
from inference.contract.metering.spending import MICRO, Budget, key_prefix, period_of

REDIS_TIMEOUT_S = 1.0


def spent_usd(key: GatewayKey) -> dict[Budget, float] | None:
    """What its requests have cost in the present day and month, as gateways count it. None where Redis does not say."""
    now_s, prefix = time.time(), key_prefix(key.tenant.name, key.sha256)
    both: tuple[Budget, ...] = ("usd_day", "usd_month")
    try:
        with Redis.from_url(
            settings.CONFIG.redis_url, socket_timeout=REDIS_TIMEOUT_S, socket_connect_timeout=REDIS_TIMEOUT_S
        ) as redis:
            counts = [cast("bytes | None", redis.hget(prefix + each, period_of(each, now_s).name)) for each in both]
    except (RedisError, OSError):
        return None
    return {each: int(count or 0) / MICRO for each, count in zip(both, counts, strict=True)}
