"""Response messages of a call come whole, however their bytes are cut into frames."""

import asyncio
from itertools import pairwise
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.wires.grpc import http2 as h2
from inference.wires.grpc.call import Call
from inference.wires.grpc.connection import Connection


def a_call() -> Call:
    return Call(cast(Connection, None), (b"/path", b"", b""), 1)


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=8), st.lists(st.integers(0, 900), max_size=12))
def test_messages_are_the_ones_that_were_sent(messages: list[bytes], cuts: list[int]) -> None:
    data = b"".join(map(h2.message, messages))
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    call = a_call()
    for begin, end in pairwise(edges):
        call.feed(data[begin:end])
    call.end(None)

    async def read() -> list[bytes]:
        received = list[bytes]()
        while batch := await call.read_all():
            received += batch
        return received

    assert asyncio.run(read()) == messages


@pytest.mark.parametrize("head", [b"\1\0\0\0\1", b"\0\1\0\0\1"])
def test_compressed_and_far_too_long_messages_are_refused_at_once(head: bytes) -> None:
    with pytest.raises(h2.ProtocolError):
        a_call().feed(head)
