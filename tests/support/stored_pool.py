"""A pool in the database, with the rows that it needs."""

from typing import Any

from controlplane.fleet.models import LLMModel, Pool, Region, Variant
from tests.support.past_the_audit import unrecorded


@unrecorded()
def stored_pool(name: str = "near", model: str = "chat", region: str = "local", **fields: Any) -> Pool:
    """Of the variant MODEL-8b in that region. Model, variant and region are made where they are missing."""
    of, _ = LLMModel.objects.get_or_create(name=model)
    variant, _ = Variant.objects.get_or_create(name=f"{model}-8b", model=of)
    place, _ = Region.objects.get_or_create(name=region)
    return Pool.objects.create(**{"name": name, "variant": variant, "region": place, "model_name": model, **fields})
