"""Single requests with a callback, against a real gateway, a real lane and a receiver of webhooks."""

import json
from typing import Any

import pytest

from tests.support.gateway.process import KEY, OTHER_KEY
from tests.support.lane.callback_receiver import CallbackReceiver
from tests.support.lane.model_server import MODEL, EchoServer
from tests.support.lane.process import Stack, a_line
from tests.support.wait import eventually, eventually_async

pytestmark = pytest.mark.processes

CHAT = "/v1/chat/completions"


def a_job(text: str, **changes: Any) -> dict[str, Any]:
    return {"endpoint": CHAT, "body": a_line("", text)["body"], **changes}


def call(stack: Stack, method: str, path: str, body: object = None, key: str = KEY) -> tuple[int, dict[str, Any]]:
    status, _, text = stack.gateway.ask(method, path, json.dumps(body).encode() if body is not None else b"", key)
    return status, json.loads(text)


def ended(stack: Stack, job: dict[str, Any]) -> dict[str, Any]:
    latest: dict[str, Any] = {}

    def is_ended() -> bool:
        latest.update(call(stack, "GET", f"/v1/jobs/{job['id']}")[1])
        return latest["status"] not in ("queued", "in_progress")

    eventually(is_ended)
    return latest


def test_a_job_of_any_route_has_the_status_and_the_body_of_its_answer(stack: Stack) -> None:
    made = [
        call(stack, "POST", "/v1/jobs", a_job("a brook", metadata={"team": "a"}, completion_window="24h"))[1],
        call(stack, "POST", "/v1/jobs", {"endpoint": "/v1/responses", "body": {"model": MODEL, "input": "lakes"}})[1],
        call(stack, "POST", "/v1/jobs", a_job("status:422"))[1],
    ]
    assert [(job["object"], job["status"], job["result"]) for job in made] == [("job", "queued", None)] * 3
    chat, response, refused = (ended(stack, job) for job in made)
    assert (chat["status"], chat["metadata"], chat["result"]["status_code"]) == ("completed", {"team": "a"}, 200)
    assert chat["result"]["body"]["choices"][0]["message"]["content"] == "echo a brook"
    assert response["result"]["body"]["output"][0]["content"][0]["text"] == "echo lakes"
    assert (refused["status"], refused["error"]["code"], refused["result"]["status_code"]) == ("failed", "422", 422)
    assert chat["created_at"] + 86_400 == chat["expires_at"] and chat["ended_at"] + 86_400 == chat["kept_until"]

    first = call(stack, "GET", "/v1/jobs?limit=2")[1]
    rest = call(stack, "GET", f"/v1/jobs?after={first['last_id']}")[1]
    listed = [job["id"] for job in first["data"] + rest["data"]]
    assert listed[: len(made)] == [job["id"] for job in reversed(made)] and len(first["data"]) == 2
    last = call(stack, "GET", f"/v1/jobs?limit=100&after={listed[-1]}")[1]
    assert (first["has_more"], "result" in first["data"][0]) == (True, False)
    assert (rest["has_more"], last["has_more"]) == (bool(last["data"]), False)
    for path in (f"/v1/jobs/{chat['id']}", f"/v1/jobs?after={chat['id']}"):
        assert call(stack, "GET", path, key=OTHER_KEY)[0] == 404
    assert call(stack, "POST", f"/v1/jobs/{chat['id']}/cancel")[0] == 409
    assert call(stack, "DELETE", f"/v1/jobs/{chat['id']}")[1]["deleted"]
    assert call(stack, "GET", f"/v1/jobs/{chat['id']}")[0] == 404


async def test_a_callback_is_signed_and_sent_until_it_is_taken(
    stack: Stack, model: EchoServer, receiver: CallbackReceiver
) -> None:
    receiver.statuses = [500]
    with_callback = {"callback": {"url": receiver.url}}
    _, first = call(stack, "POST", "/v1/jobs", a_job("call back", metadata={"row": "7"}, **with_callback))
    secret = first["callback"].pop("secret")
    assert first["callback"]["status"] == "waiting"
    await eventually_async(lambda: len(receiver.taken) == 2)
    async with stack.client() as client:
        for headers, body in receiver.taken:
            client.webhooks.verify_signature(body, headers, secret=secret)
            event = json.loads(body)
            assert (event["type"], event["object"], event["data"]) == (
                "job.completed",
                "event",
                {"id": first["id"], "status": "completed", "metadata": {"row": "7"}},
            )
            assert headers["webhook-id"] == event["id"]
    await eventually_async(lambda: ended(stack, first)["callback"]["status"] == "delivered")
    assert ended(stack, first)["callback"]["attempts"] == 2

    receiver.statuses = [410]
    model.hold()
    try:
        _, second = call(stack, "POST", "/v1/jobs", a_job("called off", **with_callback))
        assert "secret" not in second["callback"], "it is shown once"
        assert call(stack, "POST", f"/v1/jobs/{second['id']}/cancel")[1]["status"] == "cancelled"
        await eventually_async(lambda: ended(stack, second)["callback"]["status"] == "refused")
    finally:
        model.let_go()
    assert (json.loads(receiver.taken[2][1])["type"], ended(stack, second)["callback"]["status_code"]) == (
        "job.cancelled",
        410,
    )
    assert len(receiver.taken) == 3


def test_an_unknown_model_is_said_at_once(stack: Stack) -> None:
    status, answer = call(stack, "POST", "/v1/jobs", a_job("x", body={"model": "nothing"}))
    assert (status, answer["error"]["code"]) == (404, "model_not_found")


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ([], None, "invalid_value"),
        ({"body": {}}, None, "invalid_value"),
        (a_job("x", endpoint="/v1/videos"), "endpoint", "invalid_value"),
        (a_job("x", endpoint=7), "endpoint", "invalid_value"),
        (a_job("x", body="x"), "body", "invalid_value"),
        (a_job("x", body={}), "body.model", "missing_model"),
        (a_job("x", body={"model": MODEL, "stream": True}), "body.stream", "stream_not_supported"),
        (a_job("x", body={"model": MODEL, "background": True}), "body.background", "background_not_supported"),
        (a_job("x", completion_window="1h"), "completion_window", "invalid_value"),
        (a_job("x", metadata={str(it): "" for it in range(17)}), "metadata", "invalid_value"),
        (a_job("x", callbacks={}), None, "invalid_value"),
        (a_job("x", callback={}), "callback", "invalid_value"),
        (a_job("x", callback={"url": "https://h/" + "x" * 500}), "callback.url", "invalid_value"),
        (a_job("x", callback={"url": "no url"}), "callback.url", "invalid_value"),
        (a_job("x", callback={"url": "ftp://example.com/hook"}), "callback.url", "invalid_value"),
        (a_job("x", callback={"url": "https://10.0.0.1/hook"}), "callback.url", "invalid_value"),
        (a_job("x", callback={"url": "https://me:word@example.com/"}), "callback.url", "invalid_value"),
    ],
)
def test_a_wrong_request_is_answered_with_what_is_wrong(stack: Stack, body: Any, param: str | None, code: str) -> None:
    status, answer = call(stack, "POST", "/v1/jobs", body)
    assert (status, answer["error"]["param"], answer["error"]["code"]) == (400, param, code)
