"""The words for each kind of component: what its failure means for users, and when the incident resolves."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Words:
    """`is_down`, `was_down`: the verb. `effect`: what follows from it. `resolves`: when the incident is over; `{up_for}` is the time
    for which it must have been up. `anchor`: of the paragraph in docs/components.md that says what to do."""

    effect: str
    anchor: str
    is_down: str = "is down"
    was_down: str = "was down"
    again: str = "is up again"
    resolves: str = "resolves once it has been up for {up_for}"


WORDS: Mapping[str, Words] = {
    "gateway": Words("no request is served through it", "gateway-down"),
    "telemetry": Words("requests are served, but not measured, and objectives cannot be judged", "telemetry-down"),
    "cache": Words(
        "requests are served without the cache; live updates and Celery's tasks do not work; pages still go out",
        "redis-down",
    ),
    "worker": Words(
        "Celery's tasks do not run: a policy snapshot that was lost is not written again; pages still go out",
        "worker-tasks-stopped",
        is_down="has run no task",
        was_down="ran no task",
        again="runs tasks again",
        resolves="resolves once it has run tasks for {up_for}",
    ),
    "controller": Words(
        "objectives are not judged, and cannot page until they are",
        "controller-stopped",
        is_down="has not reported",
        was_down="did not report",
        again="reports again",
        resolves="resolves once it has reported for {up_for}",
    ),
    "observer": Words(
        "whether gateway, telemetry, Redis and replicas are up is not known",
        "observing-stopped",
        is_down="has stopped: the worker has probed no component",
        was_down="had stopped: the worker probed no component",
        again="probes again",
        resolves="resolves once the worker has probed for {up_for}",
    ),
    "pool": Words(
        "requests that only this pool can answer fail",
        "pool-down",
        is_down="has {up} of {of} replicas up",
        was_down="had no replica up",
        again="has {up} of {of} replicas up again",
        resolves="resolves once a replica has been up for {up_for}",
    ),
    "replica": Words("the other replicas of its pool take its requests", "replica-down"),
    "objectives": Words(
        "they cannot page until they are judged",
        "objectives-unknown",
        is_down="cannot be judged",
        was_down="could not be judged",
        again="are judged again",
        resolves="resolves once all have been judged for {up_for}",
    ),
}
