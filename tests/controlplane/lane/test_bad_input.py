"""What clients send that nobody would write by hand is answered with what is wrong with it, and holds up nothing."""

import json
from pathlib import Path

import pytest

from tests.support.lane.model_server import MODEL, EchoServer
from tests.support.lane.process import Stack, a_fleet, a_line, ended, jsonl, start_stack, submit
from tests.support.postgresql import postgresql
from tests.support.start import Start

pytestmark = pytest.mark.processes

FORM = {"Content-Type": "multipart/form-data; boundary=XX"}
PURPOSE = b'Content-Disposition: form-data; name="purpose"'
FILE = b'Content-Disposition: form-data; name="file"; filename="in.jsonl"'
DEEP = b"[" * 100_000 + b"]" * 100_000


def form(*parts: tuple[bytes, bytes]) -> bytes:
    return b"".join(b"--XX\r\n%s\r\n\r\n%s\r\n" % part for part in parts) + b"--XX--\r\n"


def post(stack: Stack, path: str, body: bytes, headers: dict[str, str] | None = None) -> tuple[int, dict[str, object]]:
    status, _, text = stack.gateway.ask("POST", path, body, headers=headers)
    answer = json.loads(text)
    return status, answer.get("error", answer)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([(PURPOSE, b"batch"), (FILE, b"x"), (FILE, b"x" * 5_000)], "The form has two files"),
        ([(PURPOSE, b"b" * 5_000), (FILE, b"x")], "`purpose` is too long"),
        ([(PURPOSE.replace(b"purpose", b"\xe9"), b"b" * 5_000), (FILE, b"x")], "`\ufffd` is too long"),
        ([(PURPOSE, b"batch"), (FILE + b"\r\nX-A: " + b"y" * 20_000, b"x")], "The form cannot be read"),
    ],
    ids=["two files", "a long field", "a long field of no name", "a long header"],
)
def test_a_form_that_is_none_is_refused(stack: Stack, parts: list[tuple[bytes, bytes]], said: str) -> None:
    status, error = post(stack, "/v1/files", form(*parts), FORM)
    assert (status, error["code"]) == (400, "invalid_value")
    assert str(error["message"]).startswith(said)


def test_a_name_that_is_no_utf8_is_kept_as_far_as_it_is(stack: Stack) -> None:
    status, file = post(stack, "/v1/files", form((PURPOSE, b"batch"), (FILE.replace(b"in", b"\xe9"), b"x")), FORM)
    assert (status, file["filename"]) == (200, "\ufffd.jsonl")


@pytest.mark.parametrize(
    "body",
    [
        b'{"input_file_id":"f","x":' + DEEP + b"}",
        b'{"input_file_id":"f","x":"\xff"}',
        b"\xef\xbb\xbf{}",
        b'{"metadata":{"a":"\\u0000"},"input_file_id":"f","endpoint":"/v1/embeddings","completion_window":"24h"}',
    ],
    ids=["deep", "no UTF-8", "BOM", "NUL"],
)
def test_a_body_that_cannot_be_kept_is_refused(stack: Stack, body: bytes) -> None:
    status, error = post(stack, "/v1/batches", body)
    assert (status, error["code"]) == (400, "invalid_value")


async def test_a_batch_of_a_line_that_is_nested_without_end_fails_and_others_go_on(stack: Stack) -> None:
    good = jsonl([a_line("1", "x" * (2 << 20))])  # no line of the file's beginning
    deep = b'{"custom_id":"2","method":"POST","url":"/v1/chat/completions","body":{"model":"m","x":' + DEEP + b"}}\n"
    async with stack.client() as client:
        file = await client.files.create(file=("in.jsonl", good + deep), purpose="batch")
        batch = await client.batches.create(
            input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
        )
        after = await submit(client, [a_line("1", "x")])
        batch = await ended(client, batch)
        assert (await ended(client, after)).status == "completed"
    assert batch.errors is not None and batch.errors.data is not None
    [problem] = batch.errors.data
    assert (batch.status, problem.code, problem.line) == ("failed", "invalid_json_line", 2)
    assert "nested too deeply" in (problem.message or "")


@pytest.mark.parametrize("number", [b"1e400", b"7" * 5_000])
def test_a_number_beyond_all_is_passed_on_and_listed_as_it_was_written(stack: Stack, number: bytes) -> None:
    body = b'{"model":"%s","background":true,"input":[{"role":"user","content":"x","n":%s}],"top_p":%s}'
    status, _, text = stack.gateway.ask("POST", "/v1/responses", body % (MODEL.encode(), number, number))
    assert status == 200 and f'"top_p":{number.decode()}' in text
    name = text.partition('"id":"')[2].partition('"')[0]
    items = stack.gateway.ask("GET", f"/v1/responses/{name}/input_items", None)
    assert items[0] == 200 and f'"n":{number.decode()}' in items[2]


def test_what_postgresql_cannot_keep_is_refused_and_is_no_outage(start: Start, tmp_path: Path) -> None:
    with postgresql() as database, EchoServer() as model:
        stack = start_stack(start, tmp_path, a_fleet(model.url), database_url=database.url)
        status, _, text = stack.gateway.ask("GET", "/v1/files?after=%00", None)
        assert (status, json.loads(text)["error"]["code"]) == (400, "invalid_value")
        wanted = {"input_file_id": "\0", "endpoint": "/v1/embeddings", "completion_window": "24h"}
        status, error = post(stack, "/v1/batches", json.dumps(wanted).encode())
        assert (status, error["code"]) == (400, "invalid_value")
