"""Whether `weir bench` tells the truth: against a server in a process of its own whose delays are known, and that is stopped for 5 s."""

import json
import os
import signal
import subprocess
import tempfile
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.local.ports import LOOPBACK, free_ports
from deploy.local.process import ROOT
from inference.loadtest.core.result import Result, read
from inference.loadtest.core.samples import rank
from inference.loadtest.options import KEY_VARIABLE
from tests.bench.compared.environments import bin_folder
from tests.bench.figures import Figure, over_rounds, say
from tests.bench.processes import BenchError, Child, start
from tests.support.servers.delayed import FAULTS, MODEL, delayed
from tests.support.servers.vllm import VERSION, servers_folder, write_model

KEY = "sk-the-right-one"
AT_ONCE = 4
ROUNDS, MAX_ROUNDS, WARM_UPS = 3, 9, 2
RATE, SECONDS = 40, 20
PEERS_RATE = 5
SEARCHES = int(os.environ.get("WEIR_BENCH_SEARCHES", "3"))
STALL_S, STALL_AT_S, STALL_RATE = 5.0, 3.0, 20
SHARES = {"p50": 0.5, "p99": 0.99}


@dataclass
class Bed:
    """Where everything runs."""

    folder: Path
    stack: ExitStack

    def serve(self, **spec: Any) -> tuple[Child, int]:
        [port] = free_ports(1)
        return start(self.stack, "delayed", delayed(port, **spec).argv, self.folder, port=port), port

    def bench(self, port: int, *given: str, name: str = "") -> tuple[int, Result]:
        """Exit status and result of `weir bench`. Raises BenchError where it measured nothing."""
        out = self.folder / f"result-{name}.json"
        argv = [str(ROOT / "weir"), "bench", f"http://{LOOPBACK}:{port}/v1", "--out", str(out), *given]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env=os.environ | {KEY_VARIABLE: KEY})
        if done.returncode not in (0, 1, 3):
            raise BenchError(f"weir bench ended with {done.returncode}: {done.stderr}")
        return done.returncode, read(out.read_bytes())


def run() -> Iterator[Figure]:
    with ExitStack() as stack:
        bed = Bed(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-bench-weirbench-"))), stack)
        yield from _errors(bed)
        yield from _stall(bed)
        yield from _beside_others(bed)
        yield from _searches(bed)
        yield from _faults(bed)


def _errors(bed: Bed) -> Iterator[Figure]:
    """Percentiles beside those of the server's own clock."""
    rounds: dict[str, list[float]] = {"from_sent": [], "from_due": [], "client": []}
    for number in range(MAX_ROUNDS):
        if len(rounds["client"]) == ROUNDS:
            break
        child, port = bed.serve(first_ms=(20.0, 200.0), gap_ms=10.0, tokens=8, seed=number)
        given = ("--rate", str(RATE), "--duration", f"{SECONDS}s", "--seed", str(number), "--lengths", "50/8")
        status, result = bed.bench(port, *given)
        log = _get(port, "/log")[WARM_UPS:]
        child.stop()
        if len(log) != result.requests["good"]:
            raise BenchError(f"the server answered {len(log)} requests, and {result.requests['good']} were measured")
        if status == 3:
            say(f"weirbench: round {number} is invalid, and another one takes its place: {' '.join(result.faults)}")
            continue
        for since in ("from_sent", "from_due"):
            errors = [
                abs(_measured(result, f"{measure}_{since}", name) - _truth([row[at] for row in log], share))
                for at, measure in enumerate(("ttft", "e2e"))
                for name, share in SHARES.items()
            ]
            say(f"weirbench: {since}: {', '.join(f'{error:.3f} ms' for error in errors)} (TTFT p50, p99, E2E p50, p99)")
            rounds[since].append(max(errors))
        rounds["client"].append(_client(result))
    if len(rounds["client"]) < ROUNDS:
        raise BenchError(f"{MAX_ROUNDS} rounds, and not {ROUNDS} valid ones: this machine is too busy to measure on")
    yield Figure(
        "weirbench.error_ms",
        over_rounds(rounds["from_sent"]),
        "ms",
        "p50 and p99 of TTFT and E2E by the server's clock",
    )
    yield Figure(
        "weirbench.due_error_ms", over_rounds(rounds["from_due"]), "ms", "the same, from due: with the client's own lag"
    )
    yield Figure("weirbench.send_lag_p99_ms", over_rounds(rounds["client"]), "ms", "5 ms make a run invalid")


def _stall(bed: Bed) -> Iterator[Figure]:
    """The server is stopped for 5 s in the middle. Every request that was due meanwhile has to show it."""
    child, port = bed.serve(first_ms=(5.0, 5.0), gap_ms=1.0, tokens=2)
    timers = [
        threading.Timer(STALL_AT_S + wait_s, child.process.send_signal, (what,))
        for wait_s, what in ((0.0, signal.SIGSTOP), (STALL_S, signal.SIGCONT))
    ]
    for timer in timers:
        timer.start()
    try:
        _, result = bed.bench(
            port, "--rate", str(STALL_RATE), "--duration", "12s", "--arrivals", "constant", "--lengths", "50/2"
        )
    finally:
        for timer in timers:
            timer.cancel()
        child.process.send_signal(signal.SIGCONT)
        child.stop()
    first, due = result.samples["first_s"], result.samples["due_s"]
    waited = sorted(first_s - due_s for first_s, due_s in zip(first, due, strict=True))
    say(f"weirbench: {result.requests['good']} answered, {result.latency_ms['ttft_from_due']}")
    yield Figure(
        "weirbench.stall_seen_s",
        waited[-1],
        "s",
        f"{STALL_S:g} s, less at most {1 / STALL_RATE:g} s until a request is due",
    )
    stalled = sum(time_s > 0.05 for time_s in waited)
    yield Figure(
        "weirbench.stall_requests_ratio",
        stalled / (STALL_S * STALL_RATE),
        "ratio",
        "requests that were due in the stall",
    )


def _beside_others(bed: Bed) -> Iterator[Figure]:
    """The same server by other benchmarks, as far as they are here: fixed delays, far below saturation."""
    _, port = bed.serve(first_ms=(300.0, 300.0), gap_ms=20.0, tokens=16)
    _, result = bed.bench(port, "--rate", str(PEERS_RATE), "--duration", "20s", "--lengths", "100/16")
    for name, measure in (("vllm_bench", _by_vllm), ("aiperf", _by_aiperf)):
        if (theirs := measure(bed, port)) is None:
            continue
        differences = []
        for ours, there in theirs.items():
            here = _measured(result, ours, "p50")
            say(f"weirbench: p50 of {ours}: {here:.3f} ms, by {name} {there:.3f} ms")
            differences.append(100 * abs(here / there - 1))
        yield Figure(f"weirbench.vs_{name}_percent", max(differences), "%", f"p50 of {', '.join(theirs)}")


def _by_vllm(bed: Bed, port: int) -> dict[str, float] | None:
    """Medians by `vllm bench serve`, ms, where `make test-servers` has installed it."""
    python = servers_folder() / f"vllm-{VERSION}" / "bin" / "python"
    if not python.exists():
        say(f"weirbench: vLLM is not installed in {python.parent.parent}, so nothing is compared with vllm bench serve")
        return None
    model, out = write_model(bed.folder / "tokenizer"), bed.folder / "vllm.json"
    argv = [
        *(str(python), "-m", "vllm.entrypoints.cli.main", "bench", "serve", "--backend", "openai-chat"),
        *("--base-url", f"http://{LOOPBACK}:{port}", "--endpoint", "/v1/chat/completions", "--model", MODEL),
        *("--tokenizer", str(model), "--dataset-name", "random", "--random-input-len", "100", "--random-output-len", "16"),
        *("--num-prompts", str(20 * PEERS_RATE), "--request-rate", str(PEERS_RATE), "--disable-tqdm"),
        *("--percentile-metrics", "ttft,tpot,e2el", "--save-result", "--result-dir", str(out.parent), "--result-filename", out.name),
    ]  # fmt: skip
    theirs = _other(argv, out, HF_HUB_OFFLINE="1")
    names = {"ttft_from_sent": "ttft", "tpot": "tpot", "e2e_from_sent": "e2el"}
    return {ours: theirs[f"median_{name}_ms"] for ours, name in names.items()}


def _by_aiperf(bed: Bed, port: int) -> dict[str, float] | None:
    """Medians by AIPerf, ms. It counts tokens by a tokenizer of its own, so its time per token is no other's."""
    folder = bin_folder("bench-aiperf")
    if folder is None:
        return None
    model, out = write_model(bed.folder / "tokenizer"), bed.folder / "aiperf"
    argv = [
        *(str(folder / "aiperf"), "profile", "--model", MODEL, "--url", f"http://{LOOPBACK}:{port}", "--endpoint-type", "chat"),
        *("--streaming", "--tokenizer", str(model), "--random-seed", "1"),
        *("--synthetic-input-tokens-mean", "100", "--output-tokens-mean", "16"),
        *("--request-rate", str(PEERS_RATE), "--request-count", str(20 * PEERS_RATE), "--output-artifact-dir", str(out), "--ui", "none"),
    ]  # fmt: skip
    theirs = _other(argv, out / "profile_export_aiperf.json")
    names = {"ttft_from_sent": "time_to_first_token", "e2e_from_sent": "request_latency"}
    return {ours: theirs[name]["p50"] for ours, name in names.items()}


def _other(argv: Sequence[str], out: Path, **environment: str) -> dict[str, Any]:
    """What another benchmark wrote. Raises BenchError."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=os.environ | environment)
    if done.returncode:
        raise BenchError(f"{argv[0]} ended with {done.returncode}: {done.stderr[-2000:]}")
    written: dict[str, Any] = json.loads(out.read_text())
    return written


def _searches(bed: Bed) -> Iterator[Figure]:
    """The highest rate of a server with four places, each of which takes a request for about 100 ms, again and again."""
    rates = []
    for number in range(SEARCHES):
        child, port = bed.serve(first_ms=(30.0, 30.0), gap_ms=10.0, tokens=8, slots=4)
        given = (
            "--search",
            "15m",
            "--rate",
            "10",
            "--lengths",
            "50/8",
            "--objective",
            "p90 ttft <= 1s",
            "--seed",
            str(number),
        )
        status, result = bed.bench(port, *given)
        child.stop()
        assert result.search is not None
        say(f"weirbench: {result.search.reason} {result.took_s:.0f} s of the last step, exit status {status}")
        if result.search.confirmed:
            rates.append(result.search.requests_per_s or 0.0)
    yield Figure("weirbench.searches_confirmed", len(rates), f"of {SEARCHES}")
    if rates:
        yield Figure("weirbench.highest_rps", over_rounds(rates), "req/s", "four places of 100 ms take 40")
        yield Figure("weirbench.spread_percent", 100 * (max(rates) / min(rates) - 1), "%", f"of {len(rates)} searches")


def _faults(bed: Bed) -> Iterator[Figure]:
    """A server without faults, and one with each: the client that is named beside it has to notice. Nothing here keeps a core busy."""

    def alarms(fault: str) -> set[str]:
        child, port = bed.serve(first_ms=(10.0, 30.0), gap_ms=2.0, tokens=600, key=KEY, faults=[fault] if fault else [])
        _, result = bed.bench(port, "--unhappy", "--rate", "5", "--patience", "1s", name=fault)
        child.stop()
        assert result.unhappy is not None
        seen = {case.name for case in result.unhappy.cases if case.faults}
        say(f"weirbench: {fault or 'no fault'}: {', '.join(sorted(seen)) or 'nothing'}")
        return seen

    with ThreadPoolExecutor(AT_ONCE) as pool:
        seen = dict(zip(("", *FAULTS), pool.map(alarms, ("", *FAULTS)), strict=True))
    yield Figure("weirbench.false_alarms", len(seen[""]), "cases", "a server without faults")
    yield Figure(
        "weirbench.faults_found", sum(case in seen[fault] for fault, case in FAULTS.items()), f"of {len(FAULTS)}"
    )


def _get(port: int, path: str) -> Any:
    with urllib.request.urlopen(f"http://{LOOPBACK}:{port}{path}", timeout=30) as answer:
        return json.loads(answer.read())


def _truth(seconds: list[float], share: float) -> float:
    return sorted(seconds)[rank(len(seconds), share)] * 1000


def _measured(result: Result, measure: str, share: str) -> float:
    figures = result.latency_ms[measure]
    if figures is None:
        raise BenchError(f"{measure} was not measured")
    return figures[share]


def _client(result: Result) -> float:
    figures = result.client_ms["send_lag"]
    return figures["p99"] if figures else 0.0
