"""From stored rows and metrics to a named cause: each is found in data that shows it, alone, and none in data that does not."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from controlplane.telemetry.core.query_types import Region, Window
from controlplane.telemetry.explain.figures import Serving
from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.metrics.core.stale import STALE
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.causes import Causes, causes_of
from controlplane.telemetry.query.core.question import Question, parse
from controlplane.telemetry.query.core.slow import Slow
from controlplane.telemetry.store import Store
from tests.support.telemetry.samples import NOON_NS, S, row
from tests.support.telemetry.stored_metrics import Line, write, write_all

MS = 1_000_000
LENGTH = 900 * S
POOL = "chat-eu"
SERVING = {
    POOL: Serving(
        pool=POOL,
        model_name="chat",
        instances=frozenset({"gpu-1:8002", "gpu-2:8002"}),
        batch_window_ms=5.0,
        batch_max=16,
    )
}
REQUESTS = 300


@pytest.fixture(autouse=True)
def asked(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "store", lambda: store)


def request(number: int, since: int = NOON_NS, **changes: Any) -> LedgerRow:
    """One of a healthy pool with two replicas: 10 ms of queue, 400 ms of model, 20 tokens out of 200."""
    number += 1
    defaults: dict[str, Any] = {
        "entry_start_ns": since + number * (LENGTH // (REQUESTS + 2)),
        "stages": {"network": 2 * MS, "tokenizer": MS, "queue": 4 * MS, "model": 400 * MS},
        "model": "chat",
        "pool": POOL,
        "region": "eu",
        "replica": f"chat-{number % 2}",
        "prompt_tokens": 200,
        "output_tokens": 20,
        "cache_outcome": "hit" if number % 3 == 0 else "miss",
        "trace_id": f"{since + number:032x}",
    }
    stages = defaults["stages"] | changes.pop("stages", {})
    return row(number, **(defaults | {"stages": stages} | changes))


def fill(store: Store, each: Callable[[int], dict[str, Any]] = lambda number: {}) -> None:
    """A quarter of an hour of healthy requests, then one in which `each` says what is different about a request."""
    rows = [request(number, NOON_NS - LENGTH) for number in range(REQUESTS)]
    rows += [request(number, **each(number)) for number in range(REQUESTS)]
    store.writer.insert_requests(rows, 1)
    servers(store, pending=0.2, gpu=0.7, inferences=8, executions=1)


def servers(store: Store, *, pending: float, gpu: float, inferences: float, executions: float) -> None:
    """What two Tritons say every 15 s; counters grow by so much each time, and one of them begins again in between. The model beside
    the pool's on the same servers does something else."""
    gauges: list[Line] = []
    counters: list[Line] = []
    for at, instance in enumerate(("gpu-1:8002", "gpu-2:8002")):
        times = [NOON_NS + (15 * step + at) * S for step in range(60)]
        count = [(step % 40 if at else step) + 1 for step in range(60)]
        for model, factor in (("chat", 1.0), ("other", 50.0)):
            labels = {"instance": instance, "job": "replica", "model": model}
            waiting = [(time, pending * factor) for time in times]
            gauges.append(("nv_inference_pending_request_count", [*waiting, (times[-1] + 1, STALE)], labels))
            for metric, each in (("nv_inference_count", inferences * factor), ("nv_inference_exec_count", executions)):
                counters.append((metric, [(time, each * n) for time, n in zip(times, count, strict=True)], labels))
        of_gpu = {"instance": instance, "gpu_uuid": f"GPU-{at}"}
        gauges.append(("nv_gpu_utilization", [(time, gpu) for time in times], of_gpu))
    write_all(store, gauges)
    write_all(store, counters, "counter")


def causes(**parameters: str) -> Causes:
    return causes_of(question(**parameters), Slow(), SERVING)


def question(**parameters: str) -> Question:
    window = {"from": str(NOON_NS), "to": str(NOON_NS + LENGTH)}
    return parse({name: [value] for name, value in (window | parameters).items()}, NOON_NS)


def only(found: Causes) -> Any:
    assert [each.cause.name for each in found.named] == [each.cause.name for each in found.named][:1], found.named
    assert found.named, "no cause was named"
    [named] = found.named
    assert named.pool == POOL
    return named.cause


def figures(cause: Any) -> dict[str, float]:
    return {one.what: one.value for one in cause.evidence}


def test_where_nothing_is_wrong_nothing_is_named_and_everything_was_measured(store: Store) -> None:
    fill(store)
    found = causes()
    assert (found.named, found.pools, found.unmeasured) == ([], 1, [])


def test_a_cold_replica(store: Store) -> None:
    fill(store, lambda n: {"cold_start": n < 20 and n % 3 != 2, **({"stages": {"model": 6000 * MS}} if n < 20 else {})})
    cause = only(causes())
    assert cause.name == "cold-replica"
    assert figures(cause)["requests on a cold replica"] == sum(n % 3 != 2 for n in range(20))
    assert figures(cause)["their mean time"] == pytest.approx(6007)


def test_a_batching_window_that_is_too_long(store: Store) -> None:
    fill(store, lambda n: {"stages": {"queue": 95 * MS}})
    servers(store, pending=0.2, gpu=0.3, inferences=7, executions=5)
    long = {
        POOL: Serving(
            pool=POOL, model_name="chat", instances=SERVING[POOL].instances, batch_window_ms=100.0, batch_max=16
        )
    }
    cause = only(causes_of(question(), Slow(), long))
    assert cause.name == "batching-window-too-long"
    assert figures(cause)["mean batch"] == pytest.approx(1.4)
    assert causes().named == []


def test_a_deep_queue_beside_idle_gpus_also_where_it_waits_at_the_gateway(store: Store) -> None:
    fill(store, lambda n: {"stages": {"queue": 900 * MS}})
    servers(store, pending=1.0, gpu=0.2, inferences=8, executions=1)
    write(store, "weir_gateway_pool_waiting", [(NOON_NS + n * S, 10.0) for n in range(1, 100)], pool=POOL)
    cause = only(causes())
    assert cause.name == "queue-deep-gpus-idle"
    assert figures(cause) == pytest.approx({"waiting per replica": 6.0, "GPUs busy": 20.0})


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_value_beyond_all_says_nothing(store: Store, value: float) -> None:
    """Of such a queue “inf requests wait per replica” was said, and of such a use of GPUs that they were busy."""
    fill(store, lambda n: {"stages": {"queue": 900 * MS}})
    odd = [(NOON_NS + (15 * n + 7) * S, value) for n in range(1, 50)]
    of_pool = {"instance": "gpu-1:8002", "job": "replica", "model": "chat", "sender": "odd"}
    servers(store, pending=0.0, gpu=0.2, inferences=8, executions=1)
    write(store, "nv_inference_pending_request_count", odd, **of_pool)
    write(store, "nv_inference_exec_count", odd, "counter", **of_pool)
    assert causes().named == []
    servers(store, pending=6.0, gpu=0.2, inferences=8, executions=1)
    write(store, "nv_gpu_utilization", odd, **of_pool)
    assert figures(only(causes())) == pytest.approx({"waiting per replica": 6.0, "GPUs busy": 20.0})


SERVERS_QUEUES = [
    ("vllm:num_requests_waiting", {"model_name": "chat"}),
    ("sglang:num_queue_reqs", {"model_name": "chat"}),
    ("trtllm_num_requests_waiting", {"engine_type": "pytorch"}),
    ("tgi_queue_size", {}),
    ("nv_trt_llm_request_metrics", {"model": "tensorrt_llm", "request_type": "waiting"}),  # the engine's name
]


def test_the_same_from_other_servers_and_dcgm_by_the_pools_label(store: Store) -> None:
    times = [NOON_NS + 15 * S * n for n in range(1, 50)]
    gauges: list[Line] = [
        ("DCGM_FI_DEV_GPU_UTIL", [(t, 99.0) for t in times], {"gpu": "0", "instance": "w:9400", "pool": "another"})
    ]
    rows = []
    for at, (metric, labels) in enumerate(SERVERS_QUEUES):
        of_pool = {**labels, "instance": f"v{at}:8000", "pool": metric}
        gauges.append((metric, [(t, 8.0) for t in times], of_pool))
        gauges.append(
            (
                "DCGM_FI_DEV_GPU_UTIL",
                [(t, 20.0) for t in times],
                {"gpu": "0", "instance": f"v{at}:9400", "pool": metric},
            )
        )
        if "request_type" in labels:  # what is scheduled is no queue
            gauges.append((metric, [(t, 99.0) for t in times], of_pool | {"request_type": "scheduled"}))
        rows += [
            request(number, pool=metric, stages={"queue": 900 * MS}, trace_id=f"{10**6 * (at + 1) + number:032x}")
            for number in range(REQUESTS)
        ]
    store.writer.insert_requests(rows, 1)
    write_all(store, gauges)
    found = causes_of(question(), Slow(), {})
    assert {(named.pool, named.cause.name) for named in found.named} == {
        (metric, "queue-deep-gpus-idle") for metric, _ in SERVERS_QUEUES
    }
    assert {figures(named.cause)["waiting per replica"] for named in found.named} == {8.0}
    assert found.unmeasured == ["batch sizes and window", "tokenizer time per token"]


def test_busy_gpus_with_empty_queues(store: Store) -> None:
    fill(store)
    servers(store, pending=0.0, gpu=0.97, inferences=1.2, executions=1)
    cause = only(causes())
    assert cause.name == "gpus-busy-queue-empty"
    assert figures(cause)["mean batch"] == pytest.approx(1.2)


def test_a_cache_that_collapsed(store: Store) -> None:
    fill(store, lambda n: {"cache_outcome": "hit" if n % 30 == 0 else "skipped" if n % 10 == 1 else "miss"})
    cause = only(causes())
    assert cause.name == "cache-collapse"
    assert figures(cause) == pytest.approx({"hits": 100 * 10 / 270, "lookups": 270, "lookups given up": 30})
    assert next(one.expected for one in cause.evidence if one.what == "hits") == pytest.approx(100 / 3)


def test_traffic_that_is_served_in_another_region(store: Store) -> None:
    fill(store)
    far = {"pool": "chat-us", "region": "us", "replica": "us-0", "stages": {"network": 140 * MS}}
    store.writer.insert_requests(
        [request(number, **far, trace_id=f"{10**6 + number:032x}") for number in range(100)], 1
    )
    found = causes()
    [named] = found.named
    assert (named.pool, named.cause.name) == ("chat-us", "cross-region-traffic")
    assert figures(named.cause)["their network time"] == pytest.approx(140)


def test_a_fail_over_to_another_region_is_held_against_the_time_before(store: Store) -> None:
    fill(
        store, lambda n: {"pool": "chat-us", "region": "us", "replica": f"us-{n % 2}", "stages": {"network": 140 * MS}}
    )
    [named] = causes().named
    assert (named.pool, named.cause.name) == ("chat-us", "cross-region-traffic")


def test_a_saturated_tokenizer(store: Store) -> None:
    fill(store, lambda n: {"stages": {"tokenizer": 60 * MS}})
    cause = only(causes())
    assert cause.name == "tokenizer-saturation"
    assert figures(cause)["time per token"] == pytest.approx(300)


def test_longer_prompts_are_no_saturated_tokenizer(store: Store) -> None:
    fill(store, lambda n: {"prompt_tokens": 12_000, "stages": {"tokenizer": 60 * MS}})
    assert causes().named == []


def test_long_prompts_that_block_short_ones(store: Store) -> None:
    """Every tenth request is a long prompt whose prefill takes as long as four more take to arrive: those on its replica wait for it."""
    apart = LENGTH // (REQUESTS + 2)

    def each(n: int) -> dict[str, Any]:
        place = n % 10
        if place == 0:
            return {
                "prompt_tokens": 16_000,
                "prefill_ns": 4 * apart,
                "stages": {"model": 4 * apart},
                "cache_outcome": "miss",
            }
        behind = place in (2, 4)  # on the same replica as the long one: numbers of the same parity
        return {"cache_outcome": "miss", "stages": {"queue": (5 - place) * apart if behind else 4 * MS}}

    store.writer.insert_requests(
        [request(number, NOON_NS - LENGTH, cache_outcome="miss") for number in range(REQUESTS)], 1
    )
    store.writer.insert_requests([request(number, **each(number)) for number in range(REQUESTS)], 1)
    names = [named.cause.name for named in causes().named]
    assert "long-prompts-block-short" in names
    cause = next(named.cause for named in causes().named if named.cause.name == "long-prompts-block-short")
    assert figures(cause)["short prompts that met one"] == 2 * REQUESTS / 10
    assert figures(cause)["wait of short prompts behind a long one"] == pytest.approx(2 * apart / MS, rel=0.01)


def test_a_sick_replica(store: Store) -> None:
    fill(store, lambda n: {"stages": {"model": 1600 * MS}} if n % 2 else {})
    cause = only(causes())
    assert cause.name == "sick-replica"
    assert cause.summary.startswith("chat-0 of chat-eu")
    assert figures(cause)["chat-0: model time per token"] == pytest.approx(80)


def test_a_replica_that_fails(store: Store) -> None:
    fill(store, lambda n: {"status": "error", "output_tokens": 0} if n % 10 == 1 else {})
    cause = only(causes())
    assert cause.name == "sick-replica"
    assert "fails" in cause.summary


def test_filters_choose_pools_and_not_what_is_measured_of_them(store: Store) -> None:
    fill(store, lambda n: {"stages": {"model": 1600 * MS}, "tenant": "loud"} if n % 2 else {})
    other = {"pool": "other", "model": "other", "tenant": "quiet"}
    store.writer.insert_requests(
        [request(number, **other, trace_id=f"{10**6 + number:032x}") for number in range(50)], 1
    )
    assert figures(only(causes(tenant="loud"))) == figures(only(causes()))
    assert causes(tenant="quiet").named == []
    assert causes(tenant="nobody").pools == 0


def test_a_region_of_the_chart_is_looked_at_in_its_own_time(store: Store) -> None:
    fill(store, lambda n: {"stages": {"tokenizer": 60 * MS}} if n >= REQUESTS // 2 else {})
    middle = NOON_NS + LENGTH // 2
    early, late = (
        Slow(region=Region(window=Window(*ends))) for ends in ((NOON_NS, middle), (middle, NOON_NS + LENGTH))
    )
    assert causes_of(question(), early, SERVING).named == []
    assert only(causes_of(question(), late, SERVING)).name == "tokenizer-saturation"


def test_an_empty_store_names_nothing(store: Store) -> None:
    assert causes() == Causes([], 0, [])
