"""Triton wants a model of its own here; every chat model is the same program with other parameters."""

from deploy.local.models.chat import TritonPythonModel as TritonPythonModel
