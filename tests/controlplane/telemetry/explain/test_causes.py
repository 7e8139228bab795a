"""Known causes: each is named where it shows, and nowhere else."""

import re
from dataclasses import fields, replace
from pathlib import Path

import pytest

from controlplane.telemetry.explain.causes import RULES, known_causes
from controlplane.telemetry.explain.figures import AttemptFigures, PoolFigures
from controlplane.telemetry.explain.observation import (
    Batching,
    Cache,
    ColdStarts,
    Observation,
    PromptMix,
    Regions,
    Replica,
    Tokenizer,
)
from controlplane.telemetry.explain.observe import Measurements, observations, unmeasured

PAGE = Path(__file__).parents[4] / "docs" / "causes.md"

HEALTHY = Observation(
    pool="chat/eu",
    requests=1000,
    e2e_ms=400.0,
    stage_ms={"queue": 5.0, "model": 380.0, "tokenizer": 3.0, "network": 10.0},
    queue_depth=0.2,
    gpu_utilisation=0.7,
    cold_starts=ColdStarts(requests=0, cold_e2e_ms=0.0, warm_e2e_ms=400.0),
    batching=Batching(max_delay_ms=5.0, max_size=16, mean_size=9.0),
    cache=Cache(lookups=1000, hits=300, lookups_before=1000, hits_before=310),
    regions=Regions(requests=10, network_ms=60.0, local_network_ms=10.0),
    tokenizer=Tokenizer(us_per_token=3.0, us_per_token_before=3.1),
    prompts=PromptMix(long_share=0.05, short_requests=300, short_queue_with_long_ms=6.0, short_queue_alone_ms=5.0),
    replicas=tuple(Replica(name=f"chat-{i}", requests=330, errors=1, model_ms=9.0 + i) for i in range(3)),
)

SHOWN: dict[str, Observation] = {
    "no-replica-up": replace(HEALTHY, failed=120, refused=118),
    "cold-replica": replace(HEALTHY, cold_starts=ColdStarts(requests=40, cold_e2e_ms=6000.0, warm_e2e_ms=380.0)),
    "batching-window-too-long": replace(
        HEALTHY,
        stage_ms=dict(HEALTHY.stage_ms) | {"queue": 95.0},
        batching=Batching(max_delay_ms=100.0, max_size=16, mean_size=1.4),
    ),
    "queue-deep-gpus-idle": replace(HEALTHY, queue_depth=6.0, gpu_utilisation=0.2),
    "gpus-busy-queue-empty": replace(
        HEALTHY, queue_depth=0.0, gpu_utilisation=0.97, batching=Batching(max_delay_ms=0.0, max_size=16, mean_size=1.1)
    ),
    "cache-collapse": replace(HEALTHY, cache=Cache(lookups=1000, hits=40, lookups_before=1000, hits_before=310)),
    "cross-region-traffic": replace(HEALTHY, regions=Regions(requests=300, network_ms=120.0, local_network_ms=10.0)),
    "tokenizer-saturation": replace(
        HEALTHY,
        stage_ms=dict(HEALTHY.stage_ms) | {"tokenizer": 60.0},
        tokenizer=Tokenizer(us_per_token=30.0, us_per_token_before=3.0),
    ),
    "long-prompts-block-short": replace(
        HEALTHY,
        prompts=PromptMix(
            long_share=0.05, short_requests=300, short_queue_with_long_ms=700.0, short_queue_alone_ms=5.0
        ),
    ),
    "sick-replica": replace(
        HEALTHY, replicas=(*HEALTHY.replicas[:2], Replica(name="chat-2", requests=330, errors=1, model_ms=40.0))
    ),
}


@pytest.mark.parametrize("name", SHOWN)
def test_it_is_named_where_it_shows_and_alone(name: str) -> None:
    (cause,) = known_causes(SHOWN[name])
    assert cause.name == name
    assert 0 < cause.impact_ms <= SHOWN[name].e2e_ms + 220 or cause.failed == SHOWN[name].refused > 0
    assert cause.evidence
    assert "chat" in cause.summary


FULL = Batching(max_delay_ms=100.0, max_size=16, mean_size=12.0)


@pytest.mark.parametrize(
    "seen",
    [
        HEALTHY,
        Observation(pool="chat/eu", requests=0, e2e_ms=0.0),
        replace(HEALTHY, replicas=(Replica(name="alone", requests=900, errors=500, model_ms=900.0),)),
        replace(HEALTHY, cache=Cache(lookups=50, hits=0, lookups_before=1000, hits_before=310)),  # few requests
        replace(
            HEALTHY,
            prompts=PromptMix(
                long_share=0.05, short_requests=5, short_queue_with_long_ms=700.0, short_queue_alone_ms=5.0
            ),
        ),
        replace(HEALTHY, replicas=(*HEALTHY.replicas, Replica(name="chat-3", requests=3, errors=3, model_ms=400.0))),
        replace(SHOWN["batching-window-too-long"], batching=FULL),  # a full batch is worth its wait
        replace(SHOWN["batching-window-too-long"], gpu_utilisation=0.95),  # which a busy GPU explains
    ],
)
def test_nothing_is_named_where_nothing_or_too_little_shows(seen: Observation) -> None:
    assert known_causes(seen) == []


@pytest.mark.parametrize("name", SHOWN)
def test_what_was_not_measured_names_no_cause(name: str) -> None:
    nothing = {"stage_ms": {}, "replicas": ()}
    for field in fields(Observation):
        if field.default is None or field.name in nothing:
            seen = replace(SHOWN[name], **{field.name: nothing.get(field.name)})  # type: ignore[arg-type]
            assert {cause.name for cause in known_causes(seen)} <= {name}, field.name


def test_a_replica_that_fails_is_sick_too() -> None:
    failing = Replica(name="chat-2", requests=330, errors=60, model_ms=9.0)
    (cause,) = known_causes(replace(HEALTHY, replicas=(*HEALTHY.replicas[:2], failing)))
    assert cause.name == "sick-replica"
    assert "chat-2" in cause.summary and "18%" in cause.summary


def test_a_replica_whose_siblings_fail_too_is_not_the_sick_one() -> None:
    replicas = tuple(replace(each, errors=each.requests * 8 // 10) for each in HEALTHY.replicas[:2])
    worst = Replica(name="chat-2", requests=330, errors=330, model_ms=9.0)
    assert known_causes(replace(HEALTHY, replicas=(*replicas, worst))) == []


def test_a_sibling_whose_time_per_token_is_not_known_makes_no_replica_slow() -> None:
    unknown = Replica(name="chat-2", requests=330, errors=1, model_ms=None)
    assert known_causes(replace(HEALTHY, replicas=(*HEALTHY.replicas[:2], unknown))) == []


def test_of_replicas_without_output_tokens_the_time_per_token_is_not_known() -> None:
    group = PoolFigures(pool="p", model="m", region="", replica="a", requests=30, e2e_ns=1, own=30)
    attempt = AttemptFigures("p", "b", 30, 0, 0, 0)
    for attempts in ((), (attempt,)):
        (seen,) = observations(Measurements(now=[group], attempts=attempts))
        assert [each.model_ms for each in seen.replicas] == [None]


def test_what_was_measured_as_zero_was_measured() -> None:
    idle = replace(HEALTHY, queue_depth=0.0, gpu_utilisation=0.0)
    assert unmeasured([idle]) == []
    assert unmeasured([replace(idle, queue_depth=None, replicas=())]) == ["queue depth", "replicas"]


def test_the_costliest_comes_first() -> None:
    both = replace(SHOWN["cold-replica"], cache=SHOWN["cache-collapse"].cache)
    assert [cause.name for cause in known_causes(both)] == ["cold-replica", "cache-collapse"]


def test_what_costs_answers_comes_before_what_costs_time_and_is_said_of_a_pool_that_answered_nothing() -> None:
    both = replace(SHOWN["no-replica-up"], cold_starts=SHOWN["cold-replica"].cold_starts)
    assert [cause.name for cause in known_causes(both)] == ["no-replica-up", "cold-replica"]
    (cause,) = known_causes(Observation(pool="chat/eu", requests=0, e2e_ms=0.0, failed=9, refused=9))
    assert (cause.failed, cause.impact_ms) == (9, 0.0)
    assert "for 9 of 9 requests" in cause.summary


def test_each_has_a_paragraph_that_says_what_to_do() -> None:
    headings = set(re.findall(r"^## (.+)$", PAGE.read_text(), re.MULTILINE))
    assert headings == set(SHOWN)
    assert len(RULES) == len(SHOWN)
