"""Models on Triton, over gRPC: its vLLM backend, TensorRT-LLM (ensemble, BLS, LLM API), Weir's own tensors, and mapped ones.

`signatures` are tables of tensors, `facts` says which fits a model, and `plan` is a signature as one model has it. `detect`
describes servers through tritonclient. `model` calls them; `answer` reads what they send.
"""

from inference.backends.triton.connector import TritonConnector

__all__ = ["TritonConnector"]
