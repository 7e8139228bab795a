"""How high metrics are that scaling policies name, from the real store and as levels of a pool."""

import time
from collections.abc import Sequence

import pytest

from controlplane.fleet.models import Replica
from controlplane.policy.core.observation import MetricFacts
from controlplane.policy.core.spec import Scaling, ScalingSpec
from controlplane.policy.observe.core.levels import Level, Sample, gpu_use, of_labels, of_pool
from controlplane.policy.observe.gather import Background, gather
from controlplane.policy.observe.metrics import read
from controlplane.telemetry.explain.figures import Serving
from controlplane.telemetry.metrics.core.stale import STALE
from controlplane.telemetry.store import Store
from tests.support.policy.cases import POOL, scaling
from tests.support.stored_pool import stored_pool
from tests.support.telemetry.samples import S
from tests.support.telemetry.stored_metrics import write_all

TWO = Serving(pool=POOL, model_name="chat", instances=frozenset({"a:8000", "b:8000"}))
NOWHERE = Serving(pool=POOL)


def sample(value: float, time_ns: int = 5, metric: str = "jobs", *, ended: bool = False, **labels: str) -> Sample:
    return Sample(metric=metric, labels=labels, value=value, time_ns=time_ns, ended=ended)


def triton(value: float, instance: str) -> Sample:
    return sample(value, metric="nv_gpu_utilization", instance=instance)


def dcgm(value: float, instance: str) -> Sample:
    return sample(value, metric="DCGM_FI_DEV_GPU_UTIL", instance=instance)


def queue(value: float, priority: str = "") -> Sample:
    """Of a SGLang that schedules by priority: all that wait, and those of a priority."""
    return sample(value, metric="sglang:num_queue_reqs", pool=POOL, **({"priority": priority} if priority else {}))


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (of_pool([sample(2, 9, instance="a:8000"), sample(4, instance="b:8000")], TWO), Level(6, 3, 5)),
        (of_pool([sample(2, instance="a:8000"), sample(9, instance="c:8000")], TWO), None),
        (of_pool([sample(2, instance="a:8000"), sample(4, instance="b:8000", ended=True)], TWO), None),
        (of_pool([sample(2, pool=POOL), sample(9, pool="other")], TWO), Level(2, 2, 5)),
        (of_pool([sample(2, pool=POOL)], NOWHERE), Level(2, 2, 5)),
        (of_pool([sample(float("inf"), pool=POOL)], NOWHERE), None),
        (of_pool([], NOWHERE), None),
        (of_pool([queue(5), queue(3, "1"), queue(2, "None")], NOWHERE), Level(5, 5, 5)),
        (of_labels([sample(2, queue="x"), sample(3, queue="x")]), Level(5, 2.5, 5)),
        (of_labels([sample(2, queue="x"), sample(3, queue="x", ended=True)]), None),
        (gpu_use([triton(0.5, "a:8000"), triton(0.7, "b:8000")], TWO), Level(1.2, 0.6, 5)),
        (gpu_use([triton(0.5, "a:8000")], TWO), None),
        (gpu_use([dcgm(50, "a:9400"), dcgm(30, "a:9400"), dcgm(10, "b:9400")], TWO), Level(0.9, 0.3, 5)),
        (gpu_use([dcgm(50, "a:9400")], TWO), None),
        (gpu_use([dcgm(50, "c:9400")], TWO), None),
    ],
)
def test_what_a_replica_does_not_say_is_not_known_of_the_pool(level: Level | None, expected: Level | None) -> None:
    if level is None or expected is None:
        assert level is expected
    else:
        assert (level.total, level.mean, level.time_ns) == (
            pytest.approx(expected.total), pytest.approx(expected.mean), expected.time_ns,
        )  # fmt: skip


@pytest.mark.django_db
@pytest.mark.processes
def test_a_policy_sees_the_newest_values_of_the_metrics_it_names_with_their_age(store: Store) -> None:
    pool = stored_pool(POOL, region="eu")
    for host in ("a", "b"):
        Replica.objects.create(
            pool=pool, name=host, url=f"http://{host}:8000/v1", metrics=f"http://{host}:8000/metrics"
        )
    now_s = int(time.time())
    write_all(
        store,
        [
            (
                "vllm:num_preemptions",
                [((now_s - 40) * S, 9.0), ((now_s - 20 - age) * S, value)],
                {"instance": f"{host}:8000", "model_name": "chat"},
            )
            for host, value, age in (("a", 2.0, 0), ("b", 4.0, 5), ("c", 90.0, 0))
        ]
        + [("jobs", [((now_s - 10) * S, 7.0)], {"queue": queue}) for queue in ("own", "others")]
        + [("old", [((now_s - 400) * S, 7.0)], {"queue": "own"})]
        + [("left", [((now_s - 10) * S, 7.0), ((now_s - 9) * S, STALE)], {"queue": "own"})],
    )
    write_all(store, [("total", [((now_s - 10) * S, 7.0)], {"queue": "own"})], "counter")
    own = {"labels": {"queue": "own"}, "most": 5}
    policy = scaling(
        reactive={
            "gpu_use": 0.8,
            "metrics": [
                {"name": "vllm:num_preemptions", "most": 3, "of": "mean"},
                *({"name": name, **own} for name in ("jobs", "old", "left", "total")),
            ],
        }
    )
    assert isinstance(policy.policy, Scaling)
    levels = read(store, [policy.policy.spec], now_s * 1_000)
    assert gather(now_s * 1_000, [policy], Background(levels=levels)).pools[POOL].metrics == {
        "vllm:num_preemptions": MetricFacts(6.0, 3.0, 25_000),
        'jobs{queue="own"}': MetricFacts(7.0, 7.0, 10_000),
    }


@pytest.mark.django_db
@pytest.mark.processes
def test_the_use_of_gpus_is_as_old_as_what_last_moved(store: Store) -> None:
    """A page that something keeps stands still, and so does its energy; steady use does not."""
    pool, now_s = stored_pool(POOL, region="eu"), int(time.time())
    times = [now_s - age for age in (100, 80, 60, 40, 20)]

    def write(name: str, gpu: str, values: Sequence[float], kind: str = "gauge") -> None:
        points = [(at_s * S, value) for at_s, value in zip(times, values, strict=True)]
        write_all(store, [(name, points, {"instance": "a:9400", "gpu": gpu})], kind)

    def level() -> Level:
        return read(store, [spec], now_s * 1_000)[POOL, "gpu_use"]

    Replica.objects.create(pool=pool, name="a", url="http://a:8000/v1", metrics="http://a:8000/metrics")
    spec = scaling(reactive={"gpu_use": 0.8}).policy.spec
    assert isinstance(spec, ScalingSpec)
    write("DCGM_FI_DEV_GPU_UTIL", "0", [50, 50, 50, 50, 50])
    write("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "0", [1, 2, 3, 4, 5], "counter")
    assert level() == Level(0.5, 0.5, times[4] * S)
    write("DCGM_FI_DEV_GPU_UTIL", "1", [70, 70, 30, 30, 30])
    write("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "1", [6, 7, 8, 8, 8], "counter")
    assert level() == Level(0.8, 0.4, times[2] * S)
    write("DCGM_FI_DEV_GPU_UTIL", "2", [10, 10, 10, 10, 10])
    assert level().time_ns == times[0] * S
