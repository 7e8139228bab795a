"""`make mutate`: changes the pure cores in small ways, one at a time, and lists the changes that no test notices.

A sample of the changes is tried, chosen by the seed. The tests of the folders that mirror the core are asked first, then the other tests
without processes of its room. Neither mutmut nor cosmic-ray draws a sample, and both change the files where they are.
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
from tests.mutation.runs import passes

OUT = ROOT / "build" / "mutation"
Suite = tuple[Sequence[str], float]
"""Tests, and how long they may take, s."""


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


def survives(at: Path, change: Change, suites: Sequence[Suite]) -> bool:
    file = at / change.path
    original = file.read_text()
    try:
        for tests, timeout_s in suites:
            file.write_text(change.source)
            for stale in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
                stale.unlink()
            if not passes(at, tests, timeout_s):
                return False
        return True
    finally:
        file.write_text(original)
        for stale in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            stale.unlink()


def measure(name: str, sample: int, seed: int, trees: Sequence[Path]) -> float:
    """The share of changes of this core that a test noticed. Writes down the others."""
    core, began_s = CORES[name], time.monotonic()
    files = sorted(path for folder in core.folders for path in (ROOT / folder).rglob("*.py"))
    every = [change for path in files for change in changes_of(str(path.relative_to(ROOT)), path.read_text())]
    chosen = random.Random(seed).sample(every, min(sample, len(every)))
    mirrors = [f"tests/{folder}" for folder in core.folders]
    suites: list[Suite] = []
    for tests in (mirrors, [core.room, *(f"--ignore={mirror}" for mirror in mirrors)]):
        at_s = time.monotonic()
        if not passes(trees[0], tests, 3600):
            raise SystemExit(f"{' '.join(tests)} fails without any change")
        suites.append((tests, 30 + 5 * (time.monotonic() - at_s)))
    free: SimpleQueue[Path] = SimpleQueue()
    for at in trees:
        free.put(at)

    def look(change: Change) -> bool:
        at = free.get()
        try:
            found = survives(at, change, suites)
        finally:
            free.put(at)
        print("s" if found else ".", end="", flush=True)
        return found

    with ThreadPoolExecutor(len(trees)) as threads:
        unnoticed = [str(change) for change, found in zip(chosen, threads.map(look, chosen), strict=True) if found]
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / f"{name}.txt").write_text("".join(f"{line}\n" for line in sorted(unnoticed)))
    score = 1 - len(unnoticed) / len(chosen)
    print(
        f"\n{name}: {score:.0%} of {len(chosen)} changes noticed (of {len(every)} possible), {time.monotonic() - began_s:.0f} s"
    )
    for line in sorted(unnoticed):
        print(f"  {line}")
    return score


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description="Changes that no test notices")
    parser.add_argument("--core", choices=CORES, action="append", help="one of them; all without it")
    parser.add_argument("--sample", type=int, default=40, help="changes of each core")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weir-mutation-") as folder:
        trees = [tree(Path(folder) / str(number) / "repository") for number in range(given.jobs)]
        for name in given.core or CORES:
            measure(name, given.sample, given.seed, trees)


if __name__ == "__main__":
    main()
