"""The BLS of TensorRT-LLM as its clients see it."""

from tests.support.servers.triton_models.trtllm import BlsModel as TritonPythonModel  # noqa: F401
