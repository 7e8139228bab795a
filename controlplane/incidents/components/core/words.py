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
    pronoun: str = "it"
    resolves: str = "resolves once it has been up for {up_for}"


WORDS: Mapping[str, Words] = {
    "gateway": Words("no request is served through it", "gateway-down"),
    "telemetry": Words("requests are served, but not measured, and objectives cannot be judged", "telemetry-down"),
    "lane": Words("files and batches are not served; other requests are", "lane-down"),
    "cache": Words(
        "requests are served without the cache; live updates and Celery's tasks do not work; pages still go out",
        "redis-down",
    ),
    "similar": Words(
        "their models answer them until then",
        "similar-answers-wrong",
        is_down="have lost their evidence",
        was_down="had lost their evidence",
        again="have lost no evidence for an hour",
        pronoun="they",
        resolves="resolves an hour after the last was wrong, and {up_for}",
    ),
    "spans": Words(
        "requests are served, but not measured, and objectives cannot be judged",
        "spans-refused",
        is_down="do not reach the ledger",
        was_down="did not reach the ledger",
        again="reach the ledger again",
        pronoun="they",
        resolves="resolves once they have been taken for {up_for}",
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
        is_down="has judged no objective",
        was_down="judged no objective",
        again="judges objectives again",
        resolves="resolves once it has judged objectives for {up_for}",
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
        pronoun="they",
        resolves="resolves once all have been judged for {up_for}",
    ),
    "policies": Words(
        "nothing is scaled, routed or degraded anew; gateways go back to what owners entered once the last decision expires",
        "policies-stopped",
        is_down="have not been followed",
        was_down="were not followed",
        again="are followed again",
        pronoun="they",
        resolves="resolves once they have been followed for {up_for}",
    ),
    "policy": Words(
        "what its policy wants is not done",
        "policy-not-followed",
        is_down="is not as its policy wants it",
        was_down="was not as its policy wants it",
        again="has nothing any more that keeps its policy from being followed",
        resolves="resolves once the fault has been over for {up_for}",
    ),
    "policy_metrics": Words(
        "",  # the decision says what stays as it is
        "policy-without-metrics",
        is_down="is held without metrics",
        was_down="was held without metrics",
        again="is no longer held without metrics",
        resolves="resolves once it has not been held for {up_for}",
    ),
    "policy_gpus": Words(
        "it has fewer replicas than it needs",
        "policy-without-gpus",
        is_down="gets no more GPUs",
        was_down="got no more GPUs",
        again="is no longer short of GPUs",
        resolves="resolves once it has not been short of GPUs for {up_for}",
    ),
    "policy_pending": Words(
        "it has fewer replicas than it needs",
        "policy-replicas-pending",
        is_down="has replicas that got no node",
        was_down="had replicas that got no node",
        again="is no longer held up by replicas that got no node",
        resolves="resolves once none has waited too long for {up_for}",
    ),
    "policy_failing": Words(
        "it has fewer replicas than it needs",
        "policy-replicas-fail",
        is_down="has replicas that cannot run",
        was_down="had replicas that could not run",
        again="has no replica that cannot run",
        resolves="resolves once all replicas have run for {up_for}",
    ),
    "policy_rollout": Words(
        "no replica is removed by its policy meanwhile",
        "policy-rollout-stuck",
        is_down="has a rollout that makes no progress",
        was_down="had a rollout that made no progress",
        again="has no stuck rollout",
        resolves="resolves once the rollout has gone on for {up_for}",
    ),
    "policy_capacity": Words(
        "no replica is removed by its policy meanwhile",
        "policy-without-capacity",
        is_down="has replicas whose capacity is not known",
        was_down="had replicas whose capacity was not known",
        again="no longer keeps replicas because their capacity is not known",
        resolves="resolves once none has been kept for that for {up_for}",
    ),
    "policy_owner": Words(
        "its policy leaves the count alone, or shares it, as it says",
        "policy-second-owner",
        is_down="has a second owner of its count of replicas",
        was_down="had a second owner of its count of replicas",
        again="has a single owner of its count of replicas again",
        resolves="resolves once it has had a single owner for {up_for}",
    ),
    "policy_canary": Words(
        "a candidate that is rolled back gets no more requests, one that waits for a person keeps its share",
        "policy-canary-ended",
        is_down="has a canary that was not promoted",
        was_down="had a canary that was not promoted",
        again="has no failed canary any more",
        resolves="resolves once the canary's policy has been replaced or retired for {up_for}",
    ),
    "policy_failover": Words(
        "it ends by itself once what began it is over",
        "policy-failed-over",
        is_down="is failed over",
        was_down="was failed over",
        again="is served by its own pools again",
        resolves="resolves once the failover has been over for {up_for}",
    ),
    "policy_snapshot": Words(
        "gateways that mount the snapshot there keep the one they have",
        "policy-snapshot-refused",
        is_down="does not take the policy snapshot",
        was_down="did not take the policy snapshot",
        again="takes the policy snapshot again",
        resolves="resolves once it has taken the snapshot for {up_for}",
    ),
    "policy_fence": Words(
        "what it decides is not done where it is refused; replicas stay as they are there",
        "leader-refused",
        is_down="is refused as a former one",
        was_down="was refused as a former one",
        again="is no longer refused",
        resolves="resolves once nothing has refused it for {up_for}",
    ),
    "policy_gateway": Words(
        "its requests follow what was decided before",
        "policy-gateway-astray",
        is_down="does not obey what is in force",
        was_down="did not obey what was in force",
        again="obeys what is in force again",
        resolves="resolves once it has obeyed for {up_for}",
    ),
    "cluster": Words(
        "no count is changed there, and gateways go on sending to the replicas that they reach",
        "cluster-away",
        is_down="does not answer",
        was_down="did not answer",
        again="answers again",
        resolves="resolves once it has answered for {up_for}",
    ),
}
