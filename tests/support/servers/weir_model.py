"""What a Triton says of a model with Weir's tensors (docs/models.md), for stand-ins that have no real one."""

from typing import Any

from tritonclient.grpc import model_config_pb2 as types  # type: ignore[import-untyped]
from tritonclient.grpc import service_pb2 as pb


def _config() -> Any:
    answer = pb.ModelConfigResponse()
    answer.config.max_batch_size = 4
    answer.config.model_transaction_policy.decoupled = True
    for name, kind in (
        ("prompt", types.TYPE_STRING),
        ("prompt_tokens", types.TYPE_INT32),
        ("max_tokens", types.TYPE_INT32),
        ("temperature", types.TYPE_FP32),
        ("seed", types.TYPE_INT64),
    ):
        answer.config.input.add(name=name, data_type=kind, dims=[1])
    for name in ("text", "finish_reason"):
        answer.config.output.add(name=name, data_type=types.TYPE_STRING, dims=[1])
    return answer


DESCRIPTIONS = {
    "ServerMetadata": pb.ServerMetadataResponse(name="triton", version="2.51.0").SerializeToString(),
    "RepositoryIndex": pb.RepositoryIndexResponse().SerializeToString(),
    "ModelConfig": _config().SerializeToString(),
}
"""Encoded answers by method. The repository names no models: every model is there."""
