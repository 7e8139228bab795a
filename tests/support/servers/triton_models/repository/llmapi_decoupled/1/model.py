"""The LLM API model of TensorRT-LLM as its clients see it."""

from tests.support.servers.triton_models.llmapi import LlmApiModel as TritonPythonModel  # noqa: F401
