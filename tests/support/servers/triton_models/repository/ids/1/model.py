"""A model of token ids."""

from tests.support.servers.triton_models.mapped import IdsModel as TritonPythonModel  # noqa: F401
