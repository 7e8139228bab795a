"""Makes vectors in Triton's python backend."""

from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # exists only inside Triton

from deploy.local.models.lexical import vector


class TritonPythonModel:
    def execute(self, requests: list[Any]) -> list[Any]:
        return [pb_utils.InferenceResponse([_vectors(request)]) for request in requests]


def _vectors(request: Any) -> Any:
    texts = pb_utils.get_input_tensor_by_name(request, "text").as_numpy().reshape(-1)
    return pb_utils.Tensor("embedding", np.stack([vector(text.decode("utf-8", "replace")) for text in texts]))
