"""What an owner enters of a workload, as plain values."""

from dataclasses import dataclass
from typing import Literal

from inference.contract.tensor_mapping import TensorMapping

Kind = Literal["triton", "vllm", "redis", "gateway"]


@dataclass(frozen=True, slots=True)
class Batching:
    """Triton's scheduling of one model (docs/user_guide/model_configuration.md of triton-inference-server/server).

    With `max_batch_size` 0 Triton does no batching: the model's backend does, as vLLM's and TensorRT-LLM's.
    """

    max_batch_size: int = 0
    preferred_sizes: tuple[int, ...] = ()
    max_queue_delay_us: int = 1_000
    priority_levels: int = 3
    default_priority: int = 2
    max_queue_size: int = 0  # of each priority; 0 is no limit
    queue_timeout_us: int = 0  # 0 is none


@dataclass(frozen=True, slots=True)
class TritonModel:
    """A model in Triton's repository. `signature` is the pool's: it says which tensors the model has."""

    name: str
    version: str
    backend: str
    signature: str
    mapping: TensorMapping | None = None
    instances: int = 1
    batching: Batching = Batching()
    warm_up_prompt: str = "Say yes."
    warm_up_tokens: int = 8
    parameters: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class WorkloadValue:
    """One workload. Sizes are Kubernetes quantities, such as `4` and `32Gi`."""

    name: str
    kind: Kind
    namespace: str
    image: str
    pool: str = ""
    cpu: str = "1"
    memory: str = "1Gi"
    gpus: int = 0
    gpu_resource: str = "nvidia.com/gpu"
    shared_memory: str = ""
    node_selector: tuple[tuple[str, str], ...] = ()
    tolerate_gpu_taint: bool = True
    store_claim: str = ""
    """The PersistentVolumeClaim with the model's files."""
    store_path: str = ""
    """Their folder on it. For Triton the folder of the version, with what its backend reads."""
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    secret: str = ""
    """A Secret whose keys become environment variables."""
    start_s: int = 900
    drain_s: int = 300
    model: TritonModel | None = None
    served_name: str = ""
    """What a vLLM calls its model; its path or name on the hub is `model_source`."""
    model_source: str = ""
    min_replicas: int = 2
    max_replicas: int = 0
    """Of an autoscaler, for the API tier; 0 makes none."""
