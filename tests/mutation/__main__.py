"""`make mutate`: changes the pure cores in small ways, one at a time, and lists the changes that no test notices.

A sample of the changes is tried, chosen by the seed. The tests without processes of the core's room are asked, of them those that run the
changed statement. Neither mutmut nor cosmic-ray draws a sample, and both change the files where they are.
"""

import argparse
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from deploy.local.process import ROOT
from tests.mutation.changes import Change, changes_of
from tests.mutation.reach import Reach
from tests.mutation.runs import Tries, record

OUT = ROOT / "build" / "mutation"
START_CPU_S, TIMES = 60.0, 10.0
"""How much CPU time tests may take with a change: so much for the start, s, and so many times what they take without it."""


class Core(NamedTuple):
    folders: tuple[str, ...]
    room: str  # of its tests


CORES = {
    "ledger": Core(("controlplane/telemetry/ledger",), "tests/controlplane/telemetry/ingest"),
    "slo": Core(("controlplane/slo/core",), "tests/controlplane/slo"),
    "policy": Core(("controlplane/policy/core",), "tests/controlplane/policy"),
    "inference": Core(("inference/core", "inference/contract"), "tests/inference"),
}


def tree(at: Path) -> Path:
    """A copy of the repository to change."""
    listed = subprocess.run(
        ("git", "ls-files", "-co", "--exclude-standard"), cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (at / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, at / name)
    for name in ("static", "build"):
        (at / name).symlink_to(ROOT / name)
    subprocess.run(("git", "init", "-q"), cwd=at, check=True)
    return at


def survives(tries: Tries, change: Change, reach: Reach) -> bool:
    source = (ROOT / change.path).read_text()
    tests = reach.tests(change.path, change.line, source)
    at_import = reach.is_run_at_import(change.path, change.line, source)
    return not tests or tries.survives(change, tests, START_CPU_S + TIMES * reach.cpu_s(tests), at_import=at_import)


def measure(name: str, sample: int, seed: int, trees: Sequence[Path], *, mirrored: bool = False) -> float:
    """The share of changes of this core that a test noticed. Writes down the others."""
    core, began_s = CORES[name], time.monotonic()
    files = sorted(path for folder in core.folders for path in (ROOT / folder).rglob("*.py"))
    every = [change for path in files for change in changes_of(str(path.relative_to(ROOT)), path.read_text())]
    chosen = random.Random(seed).sample(every, min(sample, len(every)))
    OUT.mkdir(parents=True, exist_ok=True)
    reached = OUT / f"{name}.reach.json"
    mirrors = [f"tests/{folder}" for folder in core.folders]
    tests = mirrors if mirrored else [*mirrors, core.room]
    record(trees[0], tests, core.folders, reached)
    reach = Reach(reached)
    print(f"{name}: tests without processes ran in {time.monotonic() - began_s:.0f} s", flush=True)
    tries = [Tries(at, tests) for at in trees]
    free: SimpleQueue[Tries] = SimpleQueue()
    for each in tries:
        free.put(each)

    def look(change: Change) -> bool:
        one = free.get()
        try:
            found = survives(one, change, reach)
        finally:
            free.put(one)
        print(f"  {change}\n" if found else ".", end="", flush=True)
        return found

    with ThreadPoolExecutor(len(tries)) as threads:
        unnoticed = [str(change) for change, found in zip(chosen, threads.map(look, chosen), strict=True) if found]
    (OUT / f"{name}.txt").write_text("".join(f"{line}\n" for line in sorted(unnoticed)))
    late = [change for each in tries for change in each.late]
    print("".join(f"\n  late, look at it: {change}" for change in late), end="")
    score = 1 - len(unnoticed) / len(chosen)
    print(
        f"\n{name}: {score:.0%} of {len(chosen)} changes noticed (of {len(every)} possible), {time.monotonic() - began_s:.0f} s"
    )
    return score


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description="Changes that no test notices")
    parser.add_argument("--core", choices=CORES, action="append", help="one of them; all without it")
    parser.add_argument("--sample", type=int, default=40, help="changes of each core")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--mirrored", action="store_true", help="ask the core's own tests alone, which takes minutes")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weir-mutation-") as folder:
        trees = [tree(Path(folder) / str(number) / "repository") for number in range(given.jobs)]
        for name in given.core or CORES:
            measure(name, given.sample, given.seed, trees, mirrored=given.mirrored)


if __name__ == "__main__":
    main()
