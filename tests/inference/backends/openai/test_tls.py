import ssl
from pathlib import Path

import pytest

from inference.contract.snapshot import Tls
from inference.core.backend_errors import FailedError, UnreachableError
from tests.support.gateway.tls import issue
from tests.support.servers.calls import CALL, Connect, chat, events_of
from tests.support.servers.standins import SGLang


async def test_a_server_is_trusted_by_the_pools_authority_and_name_alone(connect: Connect, tmp_path: Path) -> None:
    issued = issue(tmp_path, "ca")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(issued.certificate, issued.key)
    server = await SGLang().start(context)
    try:
        model = connect(server.url, tls=Tls(ca="ca.pem", server_name="localhost"))
        assert await model.ready(5)
        assert len(await events_of(await model.generate(chat(), CALL))) == 4
        for tls in (Tls(), Tls(ca="ca.pem"), Tls(server_name="localhost")):
            with pytest.raises(UnreachableError):
                await connect(server.url, tls=tls).ready(5)
        with pytest.raises(FailedError, match=r"other.pem of its TLS cannot be used"):
            await connect(server.url, tls=Tls(ca="other.pem")).ready(5)
    finally:
        await server.stop()
