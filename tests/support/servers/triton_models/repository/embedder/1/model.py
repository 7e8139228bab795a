"""A model that embeds."""

from tests.support.servers.triton_models.embedder import Embedder as TritonPythonModel  # noqa: F401
