"""A model that generates no text."""

from tests.support.servers.triton_models.mapped import ForeignModel as TritonPythonModel  # noqa: F401
