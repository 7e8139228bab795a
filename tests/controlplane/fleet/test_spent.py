"""What keys have cost, as gateways count it in Redis: of several keys at once, and not known where Redis does not say."""

import time

import pytest
from pytest_django import Settings
from redis import Redis

from controlplane.fleet.models import GatewayKey, Tenant, Tier
from controlplane.fleet.spent import spent_usd
from deploy.local.ports import free_port
from inference.contract.metering.spending import MICRO, key_prefix, period_of

pytestmark = pytest.mark.django_db


def test_each_key_has_its_own_and_one_that_redis_holds_as_something_else_is_not_known(
    redis_url: str, settings: Settings
) -> None:
    settings.CONFIG = settings.CONFIG.model_copy(update={"redis_url": redis_url})
    tenant = Tenant.objects.create(name="of-spent", tier=Tier.objects.create(name="spent"))
    first, second, odd = (GatewayKey.objects.issue(tenant, name)[0] for name in ("first", "second", "odd"))
    now_s = time.time()
    with Redis.from_url(redis_url) as redis:
        redis.hset(key_prefix("of-spent", first.sha256) + "usd_day", period_of("usd_day", now_s).name, 3 * MICRO)
        redis.hset(key_prefix("of-spent", first.sha256) + "usd_month", period_of("usd_month", now_s).name, 5 * MICRO)
        redis.set(key_prefix("of-spent", odd.sha256) + "usd_month", "no hash")
    assert spent_usd([first, odd, second]) == [
        {"usd_day": 3.0, "usd_month": 5.0},
        None,
        {"usd_day": 0.0, "usd_month": 0.0},
    ]
    settings.CONFIG = settings.CONFIG.model_copy(update={"redis_url": f"redis://127.0.0.1:{free_port()}/0"})
    assert spent_usd([first, second]) == [None, None]
