"""What keeps the replicas of a workload from running: crashes, lost nodes, rollouts, and replicas that cannot be created."""

from collections.abc import Iterable, Mapping

from controlplane.core.formatting import TEXT
from controlplane.fleet.clusters.kubernetes.objects import Deployment, Labels, Node, Pod, ms

ORDINARY_WAITS = frozenset({"ContainerCreating", "PodInitializing", ""})
MIN_RESTARTS = 2
"""A pod that is not ready and whose container was started again so often cannot run. One crash is no evidence."""


def rollout_of(deployment: Deployment, pods: Iterable[Pod]) -> tuple[str, bool]:
    """What is under way with the Deployment's replicas, as a sentence, and whether it makes no progress. Empty: nothing is.

    https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#deployment-status
    """
    name, status = deployment.metadata.name, deployment.status
    conditions = {condition.type: condition for condition in status.conditions}
    failure = conditions.get("ReplicaFailure")
    if failure is not None and failure.status == "True":
        return f"Deployment “{name}” cannot create replicas: {failure.message or failure.reason or ''}", True
    older = status.replicas - status.updatedReplicas
    if older <= 0:
        return "", False
    changes = template_changes(deployment, pods)
    what = f" ({', '.join(changes)})" if changes else ""
    if deployment.spec.paused:
        return (
            f"The rollout of Deployment “{name}”{what} is paused with {TEXT.counted(older, 'replica')} of the older template.",
            False,
        )
    progress = conditions.get("Progressing")
    if progress is not None and progress.status == "False":
        return f"The rollout of Deployment “{name}”{what} makes no progress: {progress.message or ''}", True
    return f"Deployment “{name}” is replacing {TEXT.counted(older, 'replica')} of an older template{what}.", False


def lateness_of(deployment: Deployment) -> str:
    """Why replicas that are not ready are at fault, where the Deployment's deadline for them is over and no older template is left:
    then they are no rollout. Empty: the deadline is not over.
    """
    progress = next((it for it in deployment.status.conditions if it.type == "Progressing"), None)
    is_over = progress is not None and progress.status == "False"
    if progress is None or not is_over or deployment.status.replicas > deployment.status.updatedReplicas:
        return ""
    return f"it was not ready in time ({(progress.message or progress.reason or '').rstrip('.')})"


def rejection_of(rejected: Iterable[Pod], pods: Iterable[Pod]) -> str:
    """Why replicas that no node has taken yet are at fault, where nodes rejected several since one was ready last, such as for a GPU that
    is not healthy: their ReplicaSet creates others at once, for ever. Empty: they did not.
    """
    ready = [pod for pod in pods for it in pod.status.conditions if (it.type, it.status) == ("Ready", "True")]
    since_ms = max((ms(pod.metadata.creationTimestamp) or 0 for pod in ready), default=-1)
    later = [pod for pod in rejected if (ms(pod.metadata.creationTimestamp) or 0) > since_ms]
    if len(later) < MIN_RESTARTS:
        return ""
    last = max(later, key=lambda pod: ms(pod.metadata.creationTimestamp) or 0).status
    return f"nodes reject its pods with {last.reason} ({last.message.rstrip('.')})"


def template_changes(deployment: Deployment, pods: Iterable[Pod]) -> list[str]:
    """What the template says otherwise than the oldest pod, such as "image of main: chat:1 → chat:2"."""
    oldest = min(pods, key=lambda pod: ms(pod.metadata.creationTimestamp) or 0, default=None)
    if oldest is None:
        return []
    after, changes = deployment.spec.template.spec, []
    if not after.nodeSelector.items() <= oldest.spec.nodeSelector.items():  # admission may add some to a pod
        changes.append(f"nodeSelector: {_labels(oldest.spec.nodeSelector)} → {_labels(after.nodeSelector)}")
    before = {container.name: container for container in oldest.spec.containers}
    for container in after.containers:
        was = before.get(container.name)
        if was is None:
            changes.append(f"container {container.name} is new")
            continue
        if was.image != container.image:
            changes.append(f"image of {container.name}: {was.image} → {container.image}")
        if (was.command, was.args) != (container.command, container.args):
            changes.append(f"command of {container.name}")
        before_it, wanted = was.resources, container.resources
        if not (
            wanted.requests.items() <= before_it.requests.items() and wanted.limits.items() <= before_it.limits.items()
        ):
            changes.append(f"resources of {container.name}")
    return changes


def _labels(labels: Labels) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(labels.items())) or "none"


def silent_nodes(nodes: Iterable[Node]) -> dict[str, str]:
    """By node that is not ready, or that nobody has heard of for longer than the cluster waits, what is said of it."""
    silent = {}
    for node in nodes:
        for condition in node.status.conditions:
            if condition.type == "Ready" and condition.status != "True":
                what = "is not ready" if condition.status == "False" else "does not answer"
                why = (condition.message or condition.reason or "").rstrip(".")
                silent[node.metadata.name] = f"its node {node.metadata.name} {what}{f' ({why})' if why else ''}"
    return silent


def node_fault_of(pod: Pod, silent: Mapping[str, str]) -> str:
    """Why nobody knows whether the pod runs, by `silent_nodes`. Where nodes may not be read, by what the node controller leaves: the pod is
    no longer ready, without a reason, which a kubelet gives, and its containers still are.

    https://kubernetes.io/docs/concepts/architecture/nodes/#node-controller
    """
    if pod.spec.nodeName in silent:
        return silent[pod.spec.nodeName]
    conditions = {condition.type: condition for condition in pod.status.conditions}
    ready, containers = conditions.get("Ready"), conditions.get("ContainersReady")
    is_marked = ready is not None and ready.status == "False" and not ready.reason
    return "its node does not answer" if is_marked and containers is not None and containers.status == "True" else ""


def fault_of(pod: Pod) -> str:
    """Why a container of the pod cannot run, and how it ended last. Empty where it waits for what every pod waits for, or has
    ended once only. An init container that has done its work is none, however often it was started.
    """
    begun = (
        it for it in pod.status.initContainerStatuses if it.state.terminated is None or it.state.terminated.exitCode
    )
    for status in (*begun, *pod.status.containerStatuses):
        waiting, ended = status.state.waiting, status.state.terminated or status.lastState.terminated
        stands = waiting is not None and waiting.reason not in ORDINARY_WAITS
        if not stands and status.restartCount < MIN_RESTARTS:
            continue
        text = f"container {status.name}" if status.name else "its container"
        if stands and waiting is not None:
            text += f" waits with {waiting.reason}" + (f" ({waiting.message.rstrip('.')})" if waiting.message else "")
        if ended is not None:
            how = f" ({ended.reason})" if ended.reason else ""
            text += f"{', and' if stands else ''} ended last with exit code {ended.exitCode}{how}"
            text += f" after {status.restartCount} restarts" if status.restartCount else ""
        return text
    return ""
