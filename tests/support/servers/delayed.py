"""A server with OpenAI's API whose delays are known, in threads, so that one request never waits for another's timer.

    python -m tests.support.servers.delayed PORT [SPEC as JSON]

`GET /log` gives what it did: of each answer how long it took to its first token and to its end, by its own clock.
"""

import json
import random
import select
import socket
import sys
import threading
import time
from collections import deque
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

from deploy.local.ports import LOOPBACK
from deploy.local.process import Command, http_ok

MODEL = "delayed"
CHUNK = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": MODEL}
BURST = 30
MAX_BODY_BYTES = 8 << 20
FAULTS = {
    "leaks_early_leavers": "leave_before_first_token",
    "leaks_mid_stream": "leave_mid_stream",
    "hangs_when_half_closed": "half_close",
    "waits_for_a_slow_reader": "slow_reader",
    "waits_for_a_slow_body": "slow_body",
    "fails_at_what_is_too_long": "oversized",
    "fails_at_what_is_no_json": "bad_json",
    "writes_errors_as_pages": "bad_json",
    "takes_what_is_no_utf8": "bad_utf8",
    "closes_at_wrong_types": "wrong_types",
    "takes_any_model": "unknown_model",
    "takes_any_key": "bad_key",
    "repeats_the_key": "bad_key",
    "dies_of_what_is_no_http": "not_http",
    "runs_out_of_connections": "idle_connections",
    "drops_a_burst": "burst",
    "stays_slow_after_a_burst": "recover",
    "stalls": "stalls",
    "cuts_answers": "stalls",
}
"""What can be wrong with it, and the unhappy client that has to notice."""


@dataclass(frozen=True)
class Spec:
    """Milliseconds to the first token (evenly between two), between tokens, and how many tokens there are; `slots` requests are worked
    on at a time, 0 is no limit, and `faults` are what is wrong with it.
    """

    first_ms: tuple[float, float] = (20.0, 20.0)
    gap_ms: float = 5.0
    tokens: int = 5
    slots: int = 0
    key: str = ""
    faults: tuple[str, ...] = ()
    seed: int = 1


@dataclass
class State:
    spec: Spec
    slots: threading.Semaphore
    log: list[tuple[float, float]] = field(default_factory=list)
    door: threading.RLock = field(default_factory=threading.RLock)
    kept: list[socket.socket] = field(default_factory=list)
    requests: int = 0
    running: int = 0
    came: deque[float] = field(default_factory=lambda: deque(maxlen=BURST))
    burst: bool = False
    connections: int = 0
    dead: bool = False


class Answering(threading.Thread):
    """A connection."""

    def __init__(self, made: socket.socket, state: State) -> None:
        super().__init__(daemon=True)
        self.made, self.state, self.spec = made, state, state.spec
        self.rest = b""

    def run(self) -> None:
        with self.made, suppress(OSError, EOFError):
            while self._request():
                pass
        self.state.connections -= 1

    def _request(self) -> bool:
        while b"\r\n\r\n" not in self.rest:
            self._receive()
        came_s = time.perf_counter()
        head, _, self.rest = self.rest.partition(b"\r\n\r\n")
        if b" HTTP/1.1" not in head:
            if "dies_of_what_is_no_http" in self.spec.faults:
                self.state.dead = True
            return False
        headers = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        length = int(headers.get(b"content-length", b"0"))
        if length > MAX_BODY_BYTES:
            self._say(500 if "fails_at_what_is_too_long" in self.spec.faults else 413, error("too long"))
            return False
        if len(self.rest) < length:
            with self.state.door if "waits_for_a_slow_body" in self.spec.faults else nullcontext():
                while len(self.rest) < length:
                    self._receive()
            came_s = time.perf_counter()
        body, self.rest = self.rest[:length], self.rest[length:]
        path = head.split(b" ", 2)[1].decode()
        if path == "/v1/chat/completions":
            return self._chat(headers.get(b"authorization", b"").decode().removeprefix("bearer "), body, came_s)
        if path == "/metrics":
            self._send(200, f"vllm:num_requests_running {self.state.running}\nvllm:num_requests_waiting 0\n".encode())
        elif path == "/log":
            self._say(200, self.state.log)
        else:
            self._say(200, {"object": "list", "data": [{"id": MODEL}]})
        return True

    def _receive(self) -> None:
        """Raises EOFError at the end."""
        if not (data := self.made.recv(1 << 20)) or self.state.dead:
            raise EOFError
        self.rest += data

    def _chat(self, key: str, body: bytes, came_s: float) -> bool:
        """Whether the connection goes on."""
        faults = self.spec.faults
        with self.state.door:  # which some faults keep closed
            self.state.requests += 1
            number = self.state.requests
        status, said = refusal(self.spec, key, body)
        if "closes_at_wrong_types" in faults and said == "wrong types":
            return False
        if said == "wrong key" and "repeats_the_key" in faults:
            said = f"wrong key {key}"
        if status != 200:
            if "writes_errors_as_pages" in faults and said == "no JSON":
                self._send(status, b"<h1>Bad Request</h1>")
            else:
                self._say(status, error(said))
            return True
        if "fails" in faults and number > 2:
            self._say(500, error("out of order"))
            return True
        if "drops_a_burst" in faults and self.state.running > 2:
            return False
        wanted = json.loads(body.decode("utf-8", "replace"))
        first_ms = random.Random(f"{self.spec.seed} {number}").uniform(*self.spec.first_ms)
        if "stays_slow_after_a_burst" in faults:
            self.state.came.append(came_s)
            self.state.burst |= len(self.state.came) == BURST and came_s - self.state.came[0] < 1.0
            first_ms += 3_000 if self.state.burst and number % 2 == 0 else 0
        self.state.running += 1
        try:
            with self.state.slots:
                self._answer(wanted, first_ms, number, came_s)
        except OSError:
            early = "leaks_early_leavers" in faults and most_tokens(wanted) > 100
            if early or ("leaks_mid_stream" in faults and self.begun):
                self.state.running += 1
            raise
        finally:
            self.state.running -= 1
        return True

    begun = 0
    """Whether the request under way has a token."""

    def _answer(self, wanted: dict[str, Any], first_ms: float, number: int, came_s: float) -> None:
        tokens = min(self.spec.tokens, most_tokens(wanted))
        self.begun = 0
        if not wanted.get("stream"):
            time.sleep((first_ms + (tokens - 1) * self.spec.gap_ms) / 1000)
            message = {"role": "assistant", "content": "word " * tokens}
            self._say(200, {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
            return
        self.made.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        from_s = time.perf_counter() if self.spec.slots else came_s  # a place is taken for the whole time
        time.sleep(max(0.0, from_s + first_ms / 1000 - time.perf_counter()))
        if "hangs_when_half_closed" in self.spec.faults and self._half_closed():
            time.sleep(3600)
        began_s = time.perf_counter()
        with self.state.door if "waits_for_a_slow_reader" in self.spec.faults and tokens > 100 else nullcontext():
            for token in range(tokens):
                time.sleep(max(0.0, began_s + token * self.spec.gap_ms / 1000 - time.perf_counter()))
                self._event({"choices": [{"index": 0, "delta": {"content": f"word{token} "}}]})
                if not token:
                    first_s, self.begun = time.perf_counter(), 1
                if token == 2 and number > 20 and number % 10 == 0 and "stalls" in self.spec.faults:
                    time.sleep(3600)
                if token == 2 and number > 20 and number % 10 == 0 and "cuts_answers" in self.spec.faults:
                    raise EOFError
        self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        prompt = sum(len(str(message["content"]).split()) for message in wanted["messages"])
        self._event({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": tokens}})
        done = b"data: [DONE]\n\n"
        self.made.sendall(b"%x\r\n%b\r\n0\r\n\r\n" % (len(done), done))
        self.state.log.append((first_s - came_s, time.perf_counter() - came_s))

    def _half_closed(self) -> bool:
        readable, _, _ = select.select([self.made], [], [], 0)
        return bool(readable) and not self.made.recv(1, socket.MSG_PEEK)

    def _event(self, document: dict[str, Any]) -> None:
        line = f"data: {json.dumps(CHUNK | document)}\n\n".encode()
        self.made.sendall(b"%x\r\n%b\r\n" % (len(line), line))

    def _say(self, status: int, document: object) -> None:
        self._send(status, json.dumps(document).encode())

    def _send(self, status: int, body: bytes) -> None:
        head = f"HTTP/1.1 {status} OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.made.sendall(head.encode() + body)


def error(said: str) -> dict[str, dict[str, str]]:
    return {"error": {"message": said, "type": "invalid_request_error"}}


def most_tokens(wanted: dict[str, Any]) -> Any:
    """By either of OpenAI's names."""
    return wanted.get("max_tokens", wanted.get("max_completion_tokens"))


def refusal(spec: Spec, key: str, body: bytes) -> tuple[int, str]:
    """Status 200 where there is none."""
    if spec.key and key != spec.key and "takes_any_key" not in spec.faults:
        return 401, "wrong key"
    try:
        text = body.decode("utf-8", "replace" if "takes_what_is_no_utf8" in spec.faults else "strict")
    except UnicodeDecodeError:
        return 400, "no UTF-8"
    try:
        wanted = json.loads(text)
    except ValueError:
        return 500 if "fails_at_what_is_no_json" in spec.faults else 400, "no JSON"
    if wanted.get("model") != MODEL and "takes_any_model" not in spec.faults:
        return 404, "no such model"
    if not isinstance(wanted.get("messages"), list) or not isinstance(most_tokens(wanted), int):
        return 400, "wrong types"
    return 200, ""


def serve(port: int, spec: Spec) -> None:
    state = State(spec, threading.Semaphore(spec.slots or 1_000_000))
    with socket.create_server((LOOPBACK, port), backlog=1024) as server:
        while True:
            made, _ = server.accept()
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
            state.connections += 1
            if state.dead or ("runs_out_of_connections" in spec.faults and state.connections > 100):
                state.kept.append(made)
                continue
            Answering(made, state).start()


def delayed(port: int, **spec: Any) -> Command:
    """The command of such a server."""
    argv = (sys.executable, "-m", "tests.support.servers.delayed", str(port), json.dumps(spec))
    return Command("delayed", argv, lambda: http_ok(port, "/v1/models"))


if __name__ == "__main__":
    serve(int(sys.argv[1]), Spec(**json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}))
