"""A pool of one replica with OpenAI's API, as it is published."""

from controlplane.fleet import publish
from controlplane.fleet.models import LLMModel, Pool, Region, Replica, Variant
from controlplane.telemetry.store import Store, StoreUnavailableError
from deploy.local.ports import LOOPBACK


def benchmarked_pool(port: int) -> Pool:
    """Its replica `r0` is at `port` of this machine."""
    variant = Variant.objects.create(name="chat-8b", model=LLMModel.objects.create(name="chat"))
    region = Region.objects.create(name="eu")
    pool = Pool.objects.create(name="chat-eu", variant=variant, region=region, model_name="chat", protocol="openai")
    Replica.objects.create(pool=pool, name="r0", url=f"http://{LOOPBACK}:{port}/v1")
    publish.publish()
    return pool


def no_store() -> Store:
    """Instead of `answers.store`, where the ledger does not answer."""
    raise StoreUnavailableError("the store does not answer")
