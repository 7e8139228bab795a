"""`weir bench URL`: measures a server with OpenAI's API (docs/bench.md)."""

import asyncio
import csv
import io
import os
import platform
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import uvloop

from inference.loadtest import comparing, options, page
from inference.loadtest.client import Client, Target, TargetError
from inference.loadtest.core import summary
from inference.loadtest.core.result import Outcome, Result, result_of
from inference.loadtest.core.search import Highest
from inference.loadtest.core.unhappy import Report
from inference.loadtest.core.workload import Planned
from inference.loadtest.entering import EnteringError
from inference.loadtest.options import Options
from inference.loadtest.prompts import Prompts
from inference.loadtest.run import Conversation, Load, allow_many_connections
from inference.loadtest.searching import Search
from inference.loadtest.unhappy.suite import Suite

MISSED, INVALID, UNMEASURED, NOT_ENTERED, CUT = 1, 3, 4, 5, 130
PROGRESS_S = 5.0


def main(argv: list[str]) -> int:
    """The exit status."""
    if argv[:1] != ["bench"]:
        sys.stderr.write("usage: weir bench URL [options]\nweir bench --help says what there is.\n")
        return 0 if argv[:1] in (["-h"], ["--help"]) else 2
    if "--compare" in argv:
        return comparing.main(argv[1:])
    wanted = options.read(argv[1:])
    allow_many_connections()
    try:
        if wanted.fleet is not None:
            wanted.fleet.check()
        result = uvloop.run(_bench(wanted))
    except EnteringError as error:
        sys.stderr.write(f"weir bench: --into-fleet could enter nothing, so nothing was measured: {error}\n")
        return NOT_ENTERED
    except TargetError as error:
        sys.stderr.write(f"weir bench: the server cannot be measured: {error}\n")
        return UNMEASURED
    except (ValueError, OSError) as error:
        sys.stderr.write(f"weir bench: {error}\n")
        return 2
    people = sys.stderr if any(str(path) == "-" for path in wanted.out) else sys.stdout
    people.write(summary.text(result))
    try:
        for path in wanted.out:
            _write(result, path)
    except OSError as error:
        sys.stderr.write(f"weir bench: the result cannot be written: {error}\n")
        return 2
    if wanted.fleet is not None and not result.cut_short:
        try:
            people.write(wanted.fleet.enter(result) + "\n")
        except EnteringError as error:
            sys.stderr.write(f"weir bench: nothing was entered: {error}\n")
            return max(NOT_ENTERED, status(result, wanted.max_failed))
    return status(result, wanted.max_failed)


def status(result: Result, max_failed: float) -> int:
    """The highest of what holds."""
    sent, failed = result.requests["sent"] - result.requests["cut_short"], result.requests["failed"]
    if result.cut_short:
        return CUT
    if not sent or (result.unhappy is None and failed > max_failed * sent):
        return UNMEASURED
    if not result.valid:
        return INVALID
    if result.search is not None:
        return 0 if result.search.confirmed else MISSED
    missed = any(not objective.kept for objective in result.objectives)
    return MISSED if missed or (result.unhappy is not None and result.unhappy.faults) else 0


async def _bench(wanted: Options) -> Result:
    """Raises TargetError, ValueError, OSError."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    plan = wanted.plan(wanted.seed)
    headers = {"Authorization": f"Bearer {wanted.key}"} if wanted.key else {}
    target = Target(wanted.url, wanted.model, wanted.route, headers, wanted.extra, wanted.streams)
    client = Client(target, wanted.timeout_s, keeps_text=wanted.turns > 1)
    try:
        if not wanted.model:
            client.target = target = target._replace(model=_only(await client.models()))
        prompts = Prompts()
        load = Load(client, prompts, Conversation(wanted.turns, wanted.think_s))
        await load.warm_up()
        load.share(wanted.prefixes, wanted.prefix_tokens)
        report: Report | None = None
        highest: Highest | None = None
        began = datetime.now(UTC).isoformat(timespec="seconds")
        if wanted.unhappy:
            suite = Suite(client, prompts, plan[0], wanted.segments[0].from_rps, wanted.patience_s)
            outcome, report = await suite.run(wanted.unhappy, stop)
        elif wanted.search_s is not None:
            steps = Search(client, load, wanted.objectives, wanted.plan_of)
            outcome, highest = await steps.run(wanted.segments[0].from_rps, wanted.search_s, stop)
        else:
            outcome = await _loaded(load, plan, stop)
    finally:
        client.close()
    result = result_of(
        outcome, url=wanted.address, model=target.model, settings=wanted.settings, machine=_machine(), began=began
    )
    result.unhappy, result.search = report, highest
    if highest is None:
        result.objectives = [objective.kept_by(outcome.samples) for objective in wanted.objectives]
    return result


def _only(models: tuple[str, ...]) -> str:
    """Raises ValueError where it is not clear which is meant."""
    if len(models) != 1:
        raise ValueError(
            f"the server lists {len(models)} models, name one by --model: {', '.join(models[:20]) or 'none'}"
        )
    return models[0]


async def _loaded(load: Load, plan: list[Planned], stop: asyncio.Event) -> Outcome:
    progress = asyncio.create_task(_progress(load, plan[-1].due_s))
    try:
        return await load.run(plan, stop)
    finally:
        progress.cancel()


async def _progress(load: Load, last_due_s: float) -> None:
    while True:
        await asyncio.sleep(PROGRESS_S)
        samples = load.samples
        ended = sum(sample.ended_s is not None for sample in samples)
        failed = sum(bool(sample.failure) for sample in samples)
        sys.stderr.write(
            f"weir bench: {load.now_s:.0f} s, the last request is due at {last_due_s:.0f} s: "
            f"{len(samples)} sent, {ended} ended, {failed} of them failed\n"
        )


def _write(result: Result, path: Path) -> None:
    """In the form that the file's name says. Raises OSError."""
    if path.suffix == ".html":
        path.write_text(page.html(result))
    elif path.suffix == ".csv":
        path.write_text(_csv(result))
    elif path.suffix == ".parquet":
        from pyarrow import parquet, table  # which take longer to import than all else

        parquet.write_table(table(result.samples), path)
    elif str(path) == "-":
        sys.stdout.buffer.write(msgspec.json.encode(result) + b"\n")
    else:
        path.write_bytes(msgspec.json.encode(result) + b"\n")


def _csv(result: Result) -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(result.samples)
    rows.writerows(zip(*result.samples.values(), strict=True))
    return text.getvalue()


def _machine() -> dict[str, object]:
    return {
        "system": platform.platform(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
