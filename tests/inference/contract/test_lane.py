"""What is for the lane, and what workers read of an answer to a line."""

import pytest

from inference.contract.lane import is_below_lane, is_upload, room_of


@pytest.mark.parametrize(
    ("path", "below"),
    [
        ("/v1/files", True),
        ("/v1/files/f-1/content", True),
        ("/v1/batches", True),
        ("/v1/jobs/1", True),
        ("/v1/responses/resp_1", True),
        ("/v1/responses/resp_1/cancel", True),
        ("/v1/responses/input_tokens", False),  # a model server counts them
        ("/v1/responses", False),
        ("/v1/filesystem", False),
        ("/v1/chat/completions", False),
    ],
)
def test_what_is_below_the_lane(path: str, below: bool) -> None:
    assert is_below_lane(path) is below
    assert is_upload("POST", path) is (path == "/v1/files")
    assert not is_upload("GET", path)


@pytest.mark.parametrize(
    ("said", "room"), [("3", 3), ("-2", -2), ("", None), ("x", None), ("--2", None), ("\u0663", None)]
)
def test_room_is_a_whole_number_or_not_known(said: str, room: int | None) -> None:
    assert room_of({"x-weir-room": said}) == room
    assert room_of({}) is None
