"""A fleet with capacities: two models in two regions, of which one pool's capacity is not known."""

from controlplane.fleet.models import LLMModel, Pool, Region, Variant
from controlplane.planning.models import GpuQuota, GpuType, PoolCapacity, ReplicaCapacityEntry
from tests.support.planning.forecasts import RPS

EU_GPUS = 30


def plan_fleet() -> None:
    """H100s cost 4.20 USD an hour, A100s 2.10; a replica on an A100 carries half. `eu` has EU_GPUS H100s."""
    h100 = GpuType.objects.create(name="h100", usd_per_hour=4.2)
    a100 = GpuType.objects.create(name="a100", usd_per_hour=2.1)
    for region_name in ("eu", "us"):
        region = Region.objects.create(name=region_name)
        if region_name == "eu":
            GpuQuota.objects.create(gpu_type=h100, region=region, gpus=EU_GPUS)
        for model_name, rps in RPS.items():
            model, _ = LLMModel.objects.get_or_create(name=model_name)
            variant, _ = Variant.objects.get_or_create(name=f"{model_name}-fp16", model=model)
            pool = Pool.objects.create(
                name=f"{model_name}-{region_name}", variant=variant, region=region, model_name=model_name
            )
            own = PoolCapacity.objects.create(pool=pool, gpu_type=h100, entered_cold_start_s=240, warm_floor=2)
            if (model_name, region_name) == ("chat-small", "us"):
                continue
            for gpu_type, factor, source in ((h100, 1.0, "benchmark"), (a100, 0.5, "entered")):
                ReplicaCapacityEntry.objects.create(
                    pool=own,
                    gpu_type=gpu_type,
                    source=source,
                    requests_per_s=rps * factor,
                    input_tokens=500,
                    output_tokens=100,
                    batching_factor=12,
                    slots=64,
                )
