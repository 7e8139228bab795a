"""What a request may be for, by the names of OpenTelemetry's conventions where these have one."""

from typing import Literal, get_args

Operation = Literal[
    "chat", "text_completion", "embeddings", "rerank", "score", "classify", "tokenize", "detokenize", "transcription"
]
OPERATIONS: frozenset[Operation] = frozenset(get_args(Operation))
