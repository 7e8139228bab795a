"""Long tests are short in `make test`, and have their full length in `make test-soak` (WEIR_SOAK=1).

The marker `soak` is for a test that runs only there. A test that is merely shorter in `make test` takes its length from
`sized`. A module that imports it, and a property test, is chosen by `make test-soak` too (tests/conftest.py), and left
out of `make test-fast`.
"""

import os
from typing import TypeVar

T = TypeVar("T")

SOAKING = os.environ.get("WEIR_SOAK") == "1"


def sized(short: T, soak: T) -> T:
    """How many seeds, examples, kills or seconds: `short` in `make test`, `soak` in `make test-soak`."""
    return soak if SOAKING else short
