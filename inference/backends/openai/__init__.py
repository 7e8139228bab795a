"""OpenAI-compatible servers over HTTP: vLLM, SGLang, llama.cpp, trtllm-serve, Dynamo, and hosted ones.

`link` has the connections to one server, `model` is one model there, `stream` an answer under way, and `detect` finds out
which server it is. What servers take and send is in `inference.core.servers`.
"""

from inference.backends.openai.connector import OpenAIConnector

__all__ = ["OpenAIConnector"]
