"""Which server a list of models is from."""

import json

from inference.core.servers.identify import Listing, read_listing


def test_an_adapter_has_the_context_of_the_model_that_it_belongs_to() -> None:
    """As vLLM 0.32 lists them with `--lora-modules`."""
    base = {"id": "tiny", "owned_by": "vllm", "root": "/models/tiny", "parent": None, "max_model_len": 2048}
    tuned = {"id": "tuned", "owned_by": "vllm", "root": "/adapters/tuned", "parent": "tiny", "max_model_len": None}
    body = json.dumps({"object": "list", "data": [base, tuned]}).encode()
    expected = Listing("vllm", ("tiny", "tuned"), 2048)
    assert (read_listing(body, "tiny"), read_listing(body, "tuned")) == (expected, expected)
    orphan = json.dumps({"object": "list", "data": [tuned]}).encode()
    assert read_listing(orphan, "tuned") == Listing("vllm", ("tuned",), 0)
