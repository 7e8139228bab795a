"""What is asked for, as it is run."""

import json

import msgspec
import pytest

from controlplane.lane.core.jobs import going_on, new_response, request_of
from controlplane.lane.core.lines import MAX_LINE_BYTES, RefusedError


def test_a_conversation_is_as_long_as_a_line_at_most() -> None:
    given = {"model": "m", "input": [], "background": True, "previous_response_id": "resp_1"}
    wanted = new_response(json.dumps(given).encode())
    said = {"output": [{"type": "message", "role": "assistant", "content": "x" * (MAX_LINE_BYTES // 2)}]}
    answer = 200, msgspec.Raw(json.dumps(said).encode())
    longer = going_on(wanted, {"input": "y"}, answer)
    assert [it["content"][0] for it in request_of(longer.text)["input"]] == ["y", "x"]
    with pytest.raises(RefusedError, match="shorten it"):
        going_on(wanted, request_of(longer.text), answer)
