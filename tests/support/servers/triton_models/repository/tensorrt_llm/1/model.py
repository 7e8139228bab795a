"""The models behind a TensorRT-LLM ensemble, as one: text in, text out."""

from tests.support.servers.triton_models.trtllm import EnsembleModel as TritonPythonModel  # noqa: F401
