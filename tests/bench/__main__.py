"""`python -m tests.bench [--only PART]`: one JSON object per figure and line on stdout, progress on stderr."""

import argparse
from collections.abc import Callable, Iterator

from tests.bench import gateway, ingest
from tests.bench.figures import Figure, emit

PARTS: dict[str, Callable[[], Iterator[Figure]]] = {"gateway": gateway.run, "ingest": ingest.run}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--only", choices=sorted(PARTS), help="one part; all of them without it")
    only = parser.parse_args().only
    for name, part in PARTS.items():
        if only in (None, name):
            for figure in part():
                emit(figure)


if __name__ == "__main__":
    main()
