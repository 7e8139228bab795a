"""A model with tensors that nobody else has."""

from tests.support.servers.triton_models.mapped import MappedModel as TritonPythonModel  # noqa: F401
