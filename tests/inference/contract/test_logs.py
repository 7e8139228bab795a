import io
import json
import logging
from collections.abc import Iterator

import pytest
import redis
import structlog

from controlplane.config.secrets import new_secret
from inference.contract.logs import REDACTED, configure, redact, redact_text, stdlib_logging


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("redis://:pa55@host:6379/0", f"redis://{REDACTED}@host:6379/0"),
        ("cannot reach postgresql://weir:pa55@db/weir now", f"cannot reach postgresql://{REDACTED}@db/weir now"),
        ("Authorization: Bearer abc.def", f"Authorization: Bearer {REDACTED}"),
        ("http://127.0.0.1:8080/readyz", "http://127.0.0.1:8080/readyz"),
        ("write to olga@example.com", "write to olga@example.com"),
    ],
)
def test_texts_lose_credentials_and_nothing_else(text: str, expected: str) -> None:
    assert redact_text(text) == expected


@pytest.mark.parametrize("prefix", ["weir_api_", "weir_key_"])
def test_keys_that_we_issue_are_recognised_anywhere(prefix: str) -> None:
    key = new_secret(prefix)
    assert key not in redact_text(f"refused {key}.")


@pytest.mark.parametrize(
    "name", ["password", "api_key", "Authorization", "cookie", "gateway-key", "otlp_token", "secret_key", "prompt"]
)
def test_fields_named_for_a_secret_lose_their_value_at_any_depth(name: str) -> None:
    assert redact({"request": [{name: "hunter2"}]}) == {"request": [{name: REDACTED}]}


@pytest.mark.parametrize("name", ["prompt_tokens", "token_count", "keyspace", "cache_key", "passwords_checked"])
def test_fields_that_only_sound_like_one_keep_it(name: str) -> None:
    assert redact({name: 7}) == {name: 7}


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    config = stdlib_logging("json", "info")
    config["handlers"]["stderr"]["stream"] = stream
    config["root"]["handlers"] = ["stderr"]
    before = logging.getLogger().handlers[:]
    configure(config)
    yield stream
    logging.getLogger().handlers[:] = before


def test_both_kinds_of_logger_write_one_json_object_per_line(lines: io.StringIO) -> None:
    structlog.get_logger("ours").info("gateway answered", url="http://u:p@host", api_key="hunter2", requests=3)
    logging.getLogger("theirs").warning("connecting to %s", "redis://:hunter2@host")
    ours, theirs = (json.loads(line) for line in lines.getvalue().splitlines())
    assert (ours["event"], ours["requests"], ours["level"], ours["logger"]) == ("gateway answered", 3, "info", "ours")
    assert (ours["api_key"], ours["url"]) == (REDACTED, f"http://{REDACTED}@host")
    assert theirs["event"] == f"connecting to redis://{REDACTED}@host"


def test_tracebacks_lose_credentials_too(lines: io.StringIO) -> None:
    try:
        raise ValueError("no answer from redis://:hunter2@host")
    except ValueError:
        structlog.get_logger("ours").exception("observations.round_failed")
    assert "hunter2" not in lines.getvalue()
    assert "ValueError" in json.loads(lines.getvalue())["exception"]


def test_what_libraries_take_for_unexpected_while_redis_is_away_or_a_client_leaves_is_no_news(
    lines: io.StringIO,
) -> None:
    for error in (redis.ConnectionError("refused"), redis.TimeoutError("slow"), ValueError("a defect")):
        try:
            raise error
        except Exception:
            logging.getLogger("channels_redis.pubsub").exception("Unexpected exception in receive task")
    for coroutine in ("ASGIHandler.listen_for_disconnect()", "ours()"):
        logging.getLogger("asyncio").error(
            "Task was destroyed but it is pending!\ntask: <Task pending coro=<%s>>", coroutine
        )
    written = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert ["ValueError" in each.get("exception", "") for each in written] == [True, False]
    assert "ours()" in written[1]["event"]
