"""The command line of `weir bench`."""

import argparse
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from inference.contract.address import Url, parse_base_url, parse_url
from inference.loadtest.core import objective, schedule, workload
from inference.loadtest.core.objective import Objective
from inference.loadtest.core.schedule import Segment
from inference.loadtest.core.workload import Lengths
from inference.loadtest.entering import FleetPool
from inference.loadtest.unhappy.cases import CASES

KEY_VARIABLE, TOKEN_VARIABLE, WEIR_VARIABLE = "WEIR_BENCH_KEY", "WEIR_API_TOKEN", "WEIR_URL"
FORMS = (".json", ".csv", ".parquet", ".html")
_ROUTES = {"chat": "/chat/completions", "completions": "/completions"}
_EXIT = """\
exit status: 0 measured, and every objective was kept; 1 an objective was missed, or a badly
behaved client did harm; 2 the command line cannot be understood;
3 the client lagged, so the figures are not the server's; 4 the server could not be measured, or failed more requests than
--max-failed allows; 5 --into-fleet has entered nothing; 130 the run was cut short. Of several the highest that holds.

weir bench --compare BEFORE.json AFTER.json says what differs between two results (weir bench --compare --help).
"""


@dataclass(frozen=True, slots=True)
class Options:
    """What is to be measured. `key` is never written to a result."""

    url: Url
    model: str
    key: str
    route: str
    streams: bool
    extra: dict[str, Any]
    segments: tuple[Segment, ...]
    shape: float
    trace: Path | None
    speed: float
    until_s: float | None
    mix: tuple[Lengths, ...]
    prefixes: int
    prefix_tokens: int
    turns: int
    think_s: float
    seed: int
    timeout_s: float
    max_failed: float
    objectives: tuple[Objective, ...]
    search_s: float | None
    unhappy: tuple[str, ...]
    patience_s: float
    fleet: FleetPool | None
    out: tuple[Path, ...]
    settings: dict[str, Any]

    @property
    def address(self) -> str:
        url = self.url
        return f"{url.scheme}://{f'[{url.host}]' if ':' in url.host else url.host}:{url.port}{url.path}"

    def plan_of(self, rate: float, seconds: float, seed: int) -> list[workload.Planned]:
        """Of a step of a search."""
        times = schedule.arrivals_s([Segment(rate, rate, seconds)], self.shape, self.seed * 1000 + seed)
        return workload.planned(times, self.mix, self.prefixes if self.prefix_tokens else 0, seed)

    def plan(self, seed: int) -> list[workload.Planned]:
        """Every request's time and lengths. Raises ValueError, OSError."""
        prefixes = self.prefixes if self.prefix_tokens else 0
        if self.trace is not None:
            trace = workload.read_trace(self.trace.name, self.trace.read_bytes())
            return workload.planned_of(trace, self.speed, self.until_s, prefixes, seed)
        return workload.planned(schedule.arrivals_s(self.segments, self.shape, seed), self.mix, prefixes, seed)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="weir bench",
        description="Measures a server with OpenAI's API: an open loop whose schedule no answer changes, latency from the moment when "
        "each request was due, and a verdict on the client itself.",
        epilog=_EXIT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("url", metavar="URL", help="base of the API, such as http://10.0.0.7:8000/v1")
    made.add_argument("--model", default="", help="name of the model; may be left out where the server lists one")
    made.add_argument("--key-file", type=Path, help=f"file with the API key; else it is ${KEY_VARIABLE}")
    made.add_argument("--api", choices=_ROUTES, default="chat", help="(default chat)")
    made.add_argument(
        "--no-stream", action="store_true", help="ask for whole answers; time to the first token is then unknown"
    )
    made.add_argument(
        "--extra",
        default="{}",
        metavar="JSON",
        help="members to add to each body, such as '{\"ignore_eos\": true}'; null removes one",
    )
    load = made.add_argument_group("when requests are due")
    load.add_argument(
        "--rate", type=float, metavar="RPS", help="mean requests/s (default 1; beside badly behaved clients 5)"
    )
    load.add_argument(
        "--duration", metavar="TIME", help="such as 30s or 5m (default 30s); of a trace: how much of the run is played"
    )
    load.add_argument(
        "--load",
        metavar="PARTS",
        help="in place of rate and duration: RATE:TIME and FROM-TO:TIME with commas between them",
    )
    load.add_argument("--arrivals", choices=("poisson", "constant"), default="poisson", help="(default poisson)")
    load.add_argument(
        "--burstiness",
        type=float,
        metavar="SHAPE",
        help="gamma distributed arrivals: 1 is Poisson, less comes in bursts",
    )
    load.add_argument("--trace", type=Path, metavar="FILE", help="times and lengths from CSV or JSON lines, also .gz")
    load.add_argument("--speed", type=float, default=1.0, help="plays a trace so many times as fast (default 1)")
    load.add_argument("--seed", type=int, default=1, help="of times and lengths (default 1)")
    what = made.add_argument_group("what is asked")
    what.add_argument(
        "--lengths",
        default="200/100",
        metavar="MIX",
        help="prompt/answer tokens: 200/100, 100-400/50, 200/100:3,4000/200:1",
    )
    what.add_argument(
        "--prefix-tokens",
        type=int,
        default=0,
        metavar="N",
        help="tokens at the beginning of a prompt that others have, too",
    )
    what.add_argument(
        "--prefixes", type=int, default=1, metavar="N", help="how many such beginnings there are (default 1)"
    )
    what.add_argument("--turns", type=int, default=1, help="requests of a conversation (default 1)")
    what.add_argument("--think", default="1s", metavar="TIME", help="from an answer to the next turn (default 1s)")
    judge = made.add_argument_group("how it is judged")
    judge.add_argument(
        "--objective", action="append", default=[], metavar="TEXT", help="'p95 ttft <= 500ms'; may be repeated"
    )
    judge.add_argument(
        "--timeout",
        metavar="TIME",
        help="of a request (default 120s; beside badly behaved clients ten times their patience)",
    )
    judge.add_argument(
        "--max-failed", type=float, default=0.01, metavar="SHARE", help="of requests that may fail (default 0.01)"
    )
    judge.add_argument(
        "--search", nargs="?", const="20m", metavar="TIME",
        help="for the highest rate that keeps the objectives, from --rate on, for so long at most (default 20m)",
    )  # fmt: skip
    judge.add_argument(
        "--into-fleet", metavar="POOL",
        help="enter a confirmed highest rate as what a replica of this pool of Weir carries: URL is to be one replica's own",
    )  # fmt: skip
    judge.add_argument(
        "--weir",
        metavar="URL",
        help=f"the Weir that has the pool (default ${WEIR_VARIABLE}); its API token, of scope plan, is in ${TOKEN_VARIABLE}",
    )
    judge.add_argument("--gpu", default="", metavar="TYPE", help="the replica's GPU type (default: the pool's)")
    unhappy = made.add_argument_group("badly behaved clients")
    unhappy.add_argument(
        "--unhappy",
        nargs="?",
        const="all",
        metavar="CASES",
        help=f"beside good requests: all, or some of {', '.join(CASES)}",
    )
    unhappy.add_argument(
        "--patience", default="3s", metavar="TIME", help="how long such a client waits for anything (default 3s)"
    )
    judge.add_argument(
        "--out",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help=f"result: {', '.join(FORMS)} by its name, or - for JSON",
    )
    return made


def read(argv: list[str]) -> Options:
    """Ends the process with status 2 and a message where the line cannot be understood."""
    line = parser()
    given = line.parse_args(argv)
    try:
        return _options(given)
    except (ValueError, OSError) as error:
        line.error(str(error))


def _options(given: argparse.Namespace) -> Options:
    """Raises ValueError, OSError."""
    _check(given)
    try:
        extra = msgspec.json.decode(given.extra.encode(), type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ValueError(f"--extra: {error}") from None
    until_s = schedule.duration_s(given.duration) if given.duration else None
    patience_s = schedule.duration_s(given.patience)
    rate = given.rate or (5.0 if given.unhappy else 1.0)
    segments = schedule.parse_load(given.load) if given.load else (Segment(rate, rate, until_s or 30.0),)
    shape = schedule.CONSTANT if given.arrivals == "constant" else (given.burstiness or schedule.POISSON)
    settings = {name: str(value) if isinstance(value, Path) else value for name, value in vars(given).items()}
    objectives = tuple(map(objective.parse, given.objective))
    if given.no_stream and any(each.measure != "e2e" for each in objectives):
        raise ValueError("--no-stream: whole answers have no first token, so only objectives of e2e can be judged")
    return Options(
        url=parse_base_url(given.url, link_local=True),
        model=given.model,
        key=_key(given.key_file),
        route=_ROUTES[given.api],
        streams=not given.no_stream,
        extra=extra,
        segments=segments,
        shape=shape,
        trace=given.trace,
        speed=given.speed,
        until_s=until_s,
        mix=workload.parse_lengths(given.lengths),
        prefixes=given.prefixes,
        prefix_tokens=given.prefix_tokens,
        turns=given.turns,
        think_s=0.0 if given.think == "0" else schedule.duration_s(given.think),
        seed=given.seed,
        timeout_s=schedule.duration_s(given.timeout)
        if given.timeout
        else (10 * patience_s if given.unhappy else 120.0),
        max_failed=given.max_failed,
        objectives=objectives,
        search_s=schedule.duration_s(given.search) if given.search else None,
        unhappy=_cases(given.unhappy),
        patience_s=patience_s,
        fleet=_fleet(given),
        out=tuple(given.out),
        settings={name: value for name, value in settings.items() if name not in ("url", "model", "out", "key_file")},
    )


def _check(given: argparse.Namespace) -> None:
    """What does not fit together, and what is out of range. Raises ValueError."""
    if sum(bool(way) for way in (given.load, given.trace, given.rate is not None)) > 1:
        raise ValueError("--rate, --load and --trace are three ways to say when requests are due: give one of them")
    if given.load and given.duration:
        raise ValueError("--load says how long each part lasts: leave --duration out")
    if given.search and (not given.objective or given.load or given.trace or given.duration or given.unhappy):
        raise ValueError(
            "--search needs an --objective, and chooses rates and times itself: leave --load, --trace and --duration out"
        )
    if given.burstiness is not None and given.arrivals == "constant":
        raise ValueError("--burstiness is of random arrivals: leave --arrivals constant out")
    for name, low, high in (
        ("rate", 1e-6, 1e6), ("burstiness", 0.01, 1000.0), ("speed", 1e-6, 1e6), ("max_failed", 0.0, 1.0), ("turns", 1, 1000),
        ("prefixes", 1, 1_000_000), ("prefix_tokens", 0, workload.MAX_TOKENS),
    ):  # fmt: skip
        value = getattr(given, name)
        if value is not None and not low <= value <= high:
            raise ValueError(f"--{name.replace('_', '-')} is {value:g}, and must be from {low:g} to {high:g}")
    for path in given.out:
        if str(path) != "-" and path.suffix not in FORMS:
            raise ValueError(f"--out {path}: its name must end with one of {', '.join(FORMS)}")
        if str(path) != "-" and not path.absolute().parent.is_dir():
            raise ValueError(f"--out {path}: there is no folder {path.absolute().parent}")


def _fleet(given: argparse.Namespace) -> FleetPool | None:
    """Raises ValueError."""
    if given.into_fleet is None:
        return None
    url, token = given.weir or os.environ.get(WEIR_VARIABLE, ""), os.environ.get(TOKEN_VARIABLE, "").strip()
    if not given.search:
        raise ValueError("--into-fleet enters what a search finds: give --search and an --objective")
    if not url or not re.fullmatch(r"[!-~]+", token):
        raise ValueError(f"--into-fleet needs Weir's URL (--weir) and an API token of scope plan in ${TOKEN_VARIABLE}")
    return FleetPool(parse_url(url), token, given.into_fleet, given.gpu)


def _cases(text: str | None) -> tuple[str, ...]:
    """Raises ValueError."""
    names = () if text is None else tuple(CASES) if text == "all" else tuple(text.split(","))
    if unknown := [name for name in names if name not in CASES]:
        raise ValueError(f"--unhappy {unknown[0]}: there is no such client, but {', '.join(CASES)}")
    return names


def _key(path: Path | None) -> str:
    """Raises ValueError, OSError."""
    key = path.read_text().strip() if path is not None else os.environ.get(KEY_VARIABLE, "").strip()
    if not re.fullmatch(r"[!-~]*", key):
        raise ValueError("the API key has white space or other signs that no header can carry")
    return key
