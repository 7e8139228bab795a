"""Connections to whichever address answers first."""

import asyncio
import socket
from collections.abc import Sequence

import pytest

from inference.wires.connect import Address, connect
from tests.support.gateway.black_hole import black_hole


async def refused(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


@pytest.mark.parametrize("holes", [0, 1, 2])
async def test_an_address_that_never_answers_holds_nobody_up(holes: int) -> None:
    server = await asyncio.start_server(refused, "127.0.0.1", 0)
    well: Address = (socket.AF_INET, server.sockets[0].getsockname())
    with black_hole() as hole:
        made = await connect([*[(socket.AF_INET, hole)] * holes, well])
    assert made.getpeername() == well[1]
    assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), "a host that vanishes later is noticed"
    made.close()
    server.close()


@pytest.mark.parametrize("addresses", [[], [(socket.AF_INET, ("127.0.0.1", 1))] * 2])
async def test_where_none_answers_the_reason_is_said(addresses: Sequence[Address]) -> None:
    with pytest.raises(OSError, match=r"no address|Connect call failed"):
        await connect(addresses)
