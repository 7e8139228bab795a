"""A server with OpenAI's API whose delays are known, in threads, so that one request never waits for another's timer.

    python -m tests.support.servers.delayed PORT [SPEC as JSON]

`GET /log` gives what it did: of each answer how long it took to its first token and to its end, by its own clock.
"""

import json
import random
import socket
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from deploy.local.ports import LOOPBACK
from deploy.local.process import Command, http_ok

MODEL = "delayed"


@dataclass(frozen=True)
class Spec:
    """Milliseconds to the first token (evenly between two), between tokens, and how many tokens there are; `slots` requests are worked
    on at a time, 0 is no limit, and `fault` is what is wrong with it.
    """

    first_ms: tuple[float, float] = (20.0, 20.0)
    gap_ms: float = 5.0
    tokens: int = 5
    slots: int = 0
    key: str = ""
    fault: str = ""
    seed: int = 1


@dataclass
class State:
    spec: Spec
    slots: threading.Semaphore
    log: list[tuple[float, float]] = field(default_factory=list)
    requests: int = 0


class Answering(threading.Thread):
    """A connection."""

    def __init__(self, made: socket.socket, state: State) -> None:
        super().__init__(daemon=True)
        self.made, self.state, self.spec = made, state, state.spec
        self.rest = b""

    def run(self) -> None:
        with self.made, suppress(OSError):
            while self._request():
                pass

    def _request(self) -> bool:
        while b"\r\n\r\n" not in self.rest:
            if not (data := self.made.recv(65_536)):
                return False
            self.rest += data
        came_s = time.perf_counter()
        head, _, body = self.rest.partition(b"\r\n\r\n")
        headers = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        length = int(headers.get(b"content-length", b"0"))
        while len(body) < length:
            body += self.made.recv(1 << 20)
            came_s = time.perf_counter()
        body, self.rest = body[:length], body[length:]
        path = head.split(b" ", 2)[1].decode()
        if path == "/v1/chat/completions":
            self._chat(json.loads(body), came_s)
        elif path == "/log":
            self._say(200, self.state.log)
        else:
            self._say(200, {"object": "list", "data": [{"id": MODEL}]})
        return True

    def _chat(self, wanted: dict[str, Any], came_s: float) -> None:
        self.state.requests += 1
        number = self.state.requests
        if self.spec.fault == "fails" and number > 2:
            self._say(500, {"error": {"message": "out of order"}})
            return
        first_ms = random.Random(f"{self.spec.seed} {number}").uniform(*self.spec.first_ms)
        tokens = min(self.spec.tokens, wanted["max_tokens"])
        prompt = sum(len(message["content"].split()) for message in wanted["messages"])
        if not wanted.get("stream"):
            time.sleep((first_ms + (tokens - 1) * self.spec.gap_ms) / 1000)
            message = {"role": "assistant", "content": "word " * tokens}
            self._say(200, {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
            return
        with self.state.slots:
            self.made.sendall(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            )
            time.sleep(max(0.0, came_s + first_ms / 1000 - time.perf_counter()))
            began_s = time.perf_counter()
            for token in range(tokens):
                time.sleep(max(0.0, began_s + token * self.spec.gap_ms / 1000 - time.perf_counter()))
                self._event({"choices": [{"index": 0, "delta": {"content": f"word{token} "}}]})
                if not token:
                    first_s = time.perf_counter()
            self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
            self._event({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": tokens}})
            done = b"data: [DONE]\n\n"
            self.made.sendall(b"%x\r\n%b\r\n0\r\n\r\n" % (len(done), done))
            self.state.log.append((first_s - came_s, time.perf_counter() - came_s))

    def _event(self, document: object) -> None:
        line = f"data: {json.dumps(document)}\n\n".encode()
        self.made.sendall(b"%x\r\n%b\r\n" % (len(line), line))

    def _say(self, status: int, document: object) -> None:
        body = json.dumps(document).encode()
        head = f"HTTP/1.1 {status} OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.made.sendall(head.encode() + body)


def serve(port: int, spec: Spec) -> None:
    state = State(spec, threading.Semaphore(spec.slots or 1_000_000))
    with socket.create_server((LOOPBACK, port), backlog=1024) as server:
        while True:
            made, _ = server.accept()
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            Answering(made, state).start()


def delayed(port: int, **spec: Any) -> Command:
    """The command of such a server."""
    argv = (sys.executable, "-m", "tests.support.servers.delayed", str(port), json.dumps(spec))
    return Command("delayed", argv, lambda: http_ok(port, "/v1/models"))


if __name__ == "__main__":
    serve(int(sys.argv[1]), Spec(**json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}))
