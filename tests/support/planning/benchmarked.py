"""A pool of one replica with OpenAI's API, as it is published."""

from controlplane.fleet import publish
from controlplane.fleet.models import Pool, Replica
from controlplane.telemetry.store import Store, StoreUnavailableError
from deploy.local.ports import LOOPBACK
from tests.support.stored_pool import stored_pool


def benchmarked_pool(port: int) -> Pool:
    """Its replica `r0` is at `port` of this machine."""
    pool = stored_pool("chat-eu", region="eu", protocol="openai")
    Replica.objects.create(pool=pool, name="r0", url=f"http://{LOOPBACK}:{port}/v1")
    publish.publish()
    return pool


def no_store() -> Store:
    """Instead of `answers.store`, where the ledger does not answer."""
    raise StoreUnavailableError("the store does not answer")
