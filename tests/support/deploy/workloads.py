"""Workloads of each kind, and what is around them."""

from dataclasses import replace

from controlplane.fleet.core.manifests.render import Surroundings
from controlplane.fleet.core.manifests.values import Batching, TritonModel, WorkloadValue

AROUND = Surroundings("http://weir-telemetry:4318", {"WEIR_REDIS_URL": "redis://weir-cache:6379/0"})
MODEL = TritonModel("chat_large", "3", "python", "weir", batching=Batching(4, (2, 4), 500, 3, 2, 128, 30_000_000))
TRITON = WorkloadValue(
    name="chat-large-eu",
    kind="triton",
    namespace="serving",
    image="tritonserver:25.08",
    pool="chat-large.eu",
    gpus=4,
    node_selector=(("cloud/gpu", "h100"),),
    store_claim="models",
    store_path="chat_large/3",
    shared_memory="8Gi",
    start_s=601,
    drain_s=120,
    model=MODEL,
)
VLLM = replace(
    TRITON,
    name="chat-small-eu",
    kind="vllm",
    image="vllm/vllm-openai:v0.32.0",
    model=None,
    served_name="small",
    arguments=("--max-num-seqs=64",),
)
REDIS = WorkloadValue("weir-cache", "redis", "serving", "redis:8.2", memory="4Gi", secret="cache")
GATEWAY = WorkloadValue(
    "weir-gateway", "gateway", "serving", "weir:0.1.0", min_replicas=3, max_replicas=30, drain_s=300
)
ALL = [TRITON, VLLM, REDIS, GATEWAY]
