"""What spans say of a request: what it is for, where its time went, and which calls are Weir's own, as the ledger reads it."""

from typing import Literal, get_args

Operation = Literal[
    "chat", "text_completion", "embeddings", "rerank", "score", "classify", "tokenize", "detokenize", "transcription"
]
OPERATIONS: frozenset[Operation] = frozenset(get_args(Operation))

STAGES = ("retrieval", "rerank", "network", "gateway", "tokenizer", "cache", "queue", "model", "egress")
"""Of `weir.stage`, in the order in which a request passes through them. `unattributed` is not one of them: no span explains that time."""

BEFORE_THE_CALL = ("retrieval", "rerank")
"""What an application does for a request before it calls the gateway, where its spans say so."""

INTERNAL = "weir.internal"
"""The attribute of every span of Weir's own work. The ledger leaves out such a span and what is beneath it, but for
requests of a gateway: a client may name any span as the parent of its own.

Who makes a call to a model server that is no user's request sends a span of it, and the server's spans are its children. So it takes the
right to send telemetry to have a call left out, and nothing that a client of the gateway can put into a request does: a
`traceparent` is only a name.
"""
